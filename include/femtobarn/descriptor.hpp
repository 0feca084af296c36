/// Identifies a container: 40 bytes.
#ifndef FEMTOBARN_DESCRIPTOR_HPP
#define FEMTOBARN_DESCRIPTOR_HPP

#include <femtobarn/error.hpp>

#include <cstdint>
#include <cstring>

namespace fb {

/// Stands for a number that a container does not have: the run number of a dataset, the event number of a
/// subrun.
constexpr std::uint64_t ABSENT = FB_ABSENT;

/// The type of a container.
enum class ItemType : std::uint32_t {
    dataset = FB_DATASET,
    run = FB_RUN,
    subrun = FB_SUBRUN,
    event = FB_EVENT
};

/// Identifies a container. Descriptors sort by their numbers.
struct Descriptor : fb_descriptor {
    Descriptor() { std::memset(bytes, 0xff, sizeof bytes); }
    Descriptor(const fb_descriptor &descriptor) : fb_descriptor(descriptor) {}

    ItemType type() const { return static_cast<ItemType>(fb_descriptor_type(this)); }
    std::uint64_t run() const { return fb_descriptor_run(this); }
    std::uint64_t subrun() const { return fb_descriptor_subrun(this); }
    std::uint64_t event() const { return fb_descriptor_event(this); }

    /// The number of the container in its parent; ABSENT for a dataset.
    std::uint64_t number() const {
        switch (type()) {
        case ItemType::run:
            return run();
        case ItemType::subrun:
            return subrun();
        case ItemType::event:
            return event();
        default:
            return ABSENT;
        }
    }

    /// The descriptor of a child with this number. The child need not exist.
    Descriptor child(std::uint64_t number) const {
        Descriptor made;
        detail::call(fb_descriptor_child, this, number, &made);
        return made;
    }

    friend bool operator==(const Descriptor &a, const Descriptor &b) { return compare(a, b) == 0; }
    friend bool operator!=(const Descriptor &a, const Descriptor &b) { return compare(a, b) != 0; }
    friend bool operator<(const Descriptor &a, const Descriptor &b) { return compare(a, b) < 0; }

private:
    static int compare(const Descriptor &a, const Descriptor &b) {
        return std::memcmp(a.bytes, b.bytes, sizeof a.bytes);
    }
};

static_assert(sizeof(Descriptor) == 40, "Descriptor must have the layout of fb_descriptor");

} // namespace fb

#endif
