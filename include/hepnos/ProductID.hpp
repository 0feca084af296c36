/// The key of a product: container descriptor, label, '#' and type. It can be stored in products.
#ifndef HEPNOS_PRODUCTID_HPP
#define HEPNOS_PRODUCTID_HPP

#include <hepnos/Demangle.hpp>
#include <hepnos/ItemDescriptor.hpp>

#include <boost/serialization/access.hpp>
#include <boost/serialization/string.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace hepnos {

namespace detail {
struct Access;
}

class ProductID {
public:
    ProductID() = default;

    bool valid() const { return !m_key.empty(); }
    operator bool() const { return valid(); }

    bool operator==(const ProductID &other) const { return m_key == other.m_key; }
    bool operator!=(const ProductID &other) const { return !(*this == other); }

    /// Returns the parts of the key; pointers may be null. False if it is not valid.
    bool unpackInformation(UUID *dataset, RunNumber *run, SubRunNumber *subrun, EventNumber *event,
                           std::string *label, std::string *type) const {
        if (m_key.size() < sizeof(ItemDescriptor)) {
            return false;
        }
        EventDescriptor bytes;
        std::memcpy(bytes.data, m_key.data(), sizeof bytes.data);
        const ItemDescriptor item(bytes);
        const std::string name = m_key.substr(sizeof(ItemDescriptor));
        const std::size_t end = name.find('#');
        const auto give = [](auto *to, auto &&value) {
            if (to) {
                *to = value;
            }
        };
        give(dataset, item.dataset);
        give(run, item.run);
        give(subrun, item.subrun);
        give(event, item.event);
        give(label, name.substr(0, end));
        give(type, end == std::string::npos ? std::string() : name.substr(end + 1));
        return true;
    }

    std::string toJSON() const {
        UUID dataset;
        RunNumber run = InvalidRunNumber;
        SubRunNumber subrun = InvalidSubRunNumber;
        EventNumber event = InvalidEventNumber;
        std::string label, type;
        if (!unpackInformation(&dataset, &run, &subrun, &event, &label, &type)) {
            return "null";
        }
        std::string json = "{\"dataset_id\": " + quoted(dataset.to_string());
        const auto add = [&json](const char *name, std::uint64_t number) {
            if (number != InvalidRunNumber) {
                json += std::string(", \"") + name + "\":" + std::to_string(number);
            }
        };
        add("run", run);
        add("subrun", subrun);
        add("event", event);
        json += label.empty() ? "" : ", \"label\": " + quoted(label);
        json += type.empty() ? "" : ", \"type\": " + quoted(type);
        return json + "}";
    }

    template <typename T>
    static ProductID from(const char *label, const UUID &dataset, RunNumber run = InvalidRunNumber,
                          SubRunNumber subrun = InvalidSubRunNumber, EventNumber event = InvalidEventNumber) {
        return make(ItemDescriptor(dataset, run, subrun, event), label, demangle<T>());
    }

private:
    friend struct detail::Access;
    friend class boost::serialization::access;

    static ProductID make(const ItemDescriptor &container, std::string_view label, std::string_view type) {
        ProductID made;
        std::string &key = made.m_key;
        key.reserve(sizeof container + label.size() + 1 + type.size());
        key.append(reinterpret_cast<const char *>(&container), sizeof container);
        key.append(label).append(1, '#').append(type);
        return made;
    }

    static std::string quoted(const std::string &text) {
        constexpr const char *digits = "0123456789abcdef";
        std::string made = "\"";
        for (const char c : text) {
            if (c == '"' || c == '\\') {
                (made += '\\') += c;
            } else if (static_cast<unsigned char>(c) < 0x20) {
                ((made += "\\u00") += digits[c >> 4]) += digits[c & 15];
            } else {
                made += c;
            }
        }
        return made += '"';
    }

    template <typename Archive>
    void serialize(Archive &archive, const unsigned int) {
        archive &m_key;
    }

    std::string m_key;
};

} // namespace hepnos

#endif
