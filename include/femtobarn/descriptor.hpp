/// Which container is meant: 40 bytes.
#ifndef FEMTOBARN_DESCRIPTOR_HPP
#define FEMTOBARN_DESCRIPTOR_HPP

#include <femtobarn/error.hpp>

#include <cstdint>
#include <cstring>

namespace fb {

/// The number that a container does not have: that of the run of a dataset, of the event of a subrun.
constexpr std::uint64_t ABSENT = FB_ABSENT;

/// What a container is.
enum class ItemType : std::uint32_t {
    dataset = FB_DATASET,
    run = FB_RUN,
    subrun = FB_SUBRUN,
    event = FB_EVENT
};

/// Which container is meant. Descriptors sort as the numbers in them do.
struct Descriptor : fb_descriptor {
    Descriptor() { std::memset(bytes, 0xff, sizeof bytes); }
    Descriptor(const fb_descriptor &descriptor) : fb_descriptor(descriptor) {}

    ItemType type() const { return static_cast<ItemType>(fb_descriptor_type(this)); }
    std::uint64_t run() const { return fb_descriptor_run(this); }
    std::uint64_t subrun() const { return fb_descriptor_subrun(this); }
    std::uint64_t event() const { return fb_descriptor_event(this); }

    /// The number of the container in what holds it; ABSENT for a dataset.
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

    /// The container of a number in this one, whether it is there or not.
    Descriptor child(std::uint64_t number) const {
        Descriptor made;
        detail::Outcome outcome;
        outcome.check(fb_descriptor_child(this, number, &made, outcome));
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

static_assert(sizeof(Descriptor) == 40, "arrays of descriptors are arrays of C");

} // namespace fb

#endif
