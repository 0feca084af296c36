/// Identifies a container, in bytes that can be sent and stored. The descriptor of an event has the same 40
/// bytes as an fb_descriptor; descriptors of subruns and runs are its beginning.
#ifndef HEPNOS_ITEMDESCRIPTOR_HPP
#define HEPNOS_ITEMDESCRIPTOR_HPP

#include <hepnos/BigEndian.hpp>
#include <hepnos/EventNumber.hpp>
#include <hepnos/RunNumber.hpp>
#include <hepnos/SubRunNumber.hpp>
#include <hepnos/UUID.hpp>

#include <boost/serialization/binary_object.hpp>

#include <cstring>
#include <string>

namespace hepnos {

constexpr const int EventDescriptorLength = 40;
constexpr const int SubRunDescriptorLength = 32;
constexpr const int RunDescriptorLength = 24;
constexpr const int DataSetDescriptorLength = 16;

struct EventDescriptor {
    char data[EventDescriptorLength];
};

struct SubRunDescriptor {
    char data[SubRunDescriptorLength];
};

struct RunDescriptor {
    char data[RunDescriptorLength];
};

typedef UUID DataSetDescriptor;

struct ItemDescriptor {
    UUID dataset;
    BE<RunNumber> run;
    BE<SubRunNumber> subrun;
    BE<EventNumber> event;

    ItemDescriptor() : ItemDescriptor(UUID()) {}

    ItemDescriptor(const UUID &of_dataset, const RunNumber &of_run = InvalidRunNumber,
                   const SubRunNumber &of_subrun = InvalidSubRunNumber,
                   const EventNumber &of_event = InvalidEventNumber)
        : dataset(of_dataset), run(of_run), subrun(of_subrun), event(of_event) {}

    ItemDescriptor(const EventDescriptor &descriptor) : ItemDescriptor() {
        read(descriptor.data, EventDescriptorLength);
    }
    ItemDescriptor(const SubRunDescriptor &descriptor) : ItemDescriptor() {
        read(descriptor.data, SubRunDescriptorLength);
    }
    ItemDescriptor(const RunDescriptor &descriptor) : ItemDescriptor() {
        read(descriptor.data, RunDescriptorLength);
    }

    bool operator==(const ItemDescriptor &other) const {
        return std::memcmp(this, &other, sizeof *this) == 0;
    }
    bool operator!=(const ItemDescriptor &other) const { return !(*this == other); }

    /// Orders runs before subruns before events, and each by dataset and numbers.
    bool operator<(const ItemDescriptor &other) const {
        if (level() != other.level()) {
            return level() < other.level();
        }
        return std::memcmp(this, &other, sizeof *this) < 0; // big-endian bytes sort as numbers
    }

    std::string to_string() const {
        return "[" + dataset.to_string() + ", " + std::to_string(run) + ", " + std::to_string(subrun) + ", " +
               std::to_string(event) + "]";
    }

private:
    void read(const char *bytes, int n_bytes) { std::memcpy(static_cast<void *>(this), bytes, n_bytes); }

    int level() const {
        if (event != InvalidEventNumber) {
            return 2;
        }
        return subrun != InvalidSubRunNumber ? 1 : 0;
    }
};

static_assert(sizeof(ItemDescriptor) == EventDescriptorLength, "a descriptor must be the beginning of a key");

template <typename Stream, typename = std::enable_if_t<!detail::IsArchive<Stream>::value>>
Stream &operator<<(Stream &stream, const ItemDescriptor &descriptor) {
    stream << "[" << descriptor.dataset.to_string();
    if (descriptor.run != InvalidRunNumber) {
        stream << ", " << static_cast<RunNumber>(descriptor.run);
        if (descriptor.subrun != InvalidSubRunNumber) {
            stream << ", " << static_cast<SubRunNumber>(descriptor.subrun);
            if (descriptor.event != InvalidEventNumber) {
                stream << ", " << static_cast<EventNumber>(descriptor.event);
            }
        }
    }
    stream << "]";
    return stream;
}

} // namespace hepnos

namespace boost {
namespace serialization {

template <typename Archive>
inline void serialize(Archive &archive, hepnos::EventDescriptor &descriptor, const unsigned int) {
    archive &make_binary_object(static_cast<void *>(descriptor.data), hepnos::EventDescriptorLength);
}

template <typename Archive>
inline void serialize(Archive &archive, hepnos::SubRunDescriptor &descriptor, const unsigned int) {
    archive &make_binary_object(static_cast<void *>(descriptor.data), hepnos::SubRunDescriptorLength);
}

template <typename Archive>
inline void serialize(Archive &archive, hepnos::RunDescriptor &descriptor, const unsigned int) {
    archive &make_binary_object(static_cast<void *>(descriptor.data), hepnos::RunDescriptorLength);
}

} // namespace serialization
} // namespace boost

#endif
