/// A hint for programs that find no product because it was stored with another type.
#ifndef FEMTOBARN_HINT_HPP
#define FEMTOBARN_HINT_HPP

#include <femtobarn/type_name.hpp>

#include <atomic>
#include <iostream>
#include <string>
#include <type_traits>
#include <vector>

namespace fb::detail {

/// The names of the products of an item: label#type.
template <class Item>
auto names_of(const Item &item, const std::string &, int) -> decltype(item.products()) {
    return item.products();
}

/// The same for HEPnOS's classes.
template <class Item>
auto names_of(const Item &item, const std::string &label, long)
    -> std::vector<std::enable_if_t<(sizeof(item.listProducts(label)) > 0), std::string>> {
    std::vector<std::string> names;
    for (const auto &id : item.listProducts(label)) {
        std::string type;
        id.unpackInformation(nullptr, nullptr, nullptr, nullptr, nullptr, &type);
        names.push_back(label + '#' + type);
    }
    return names;
}

template <class Item>
std::vector<std::string> names_of(const Item &, const std::string &, ...) {
    return {};
}

/// Prints a hint once to standard error if the item has a product with this label and another type. Checks
/// only the first 64 items that have no product of this type, since each check takes time.
template <class Value, class Item>
void hint_of_type(const Item &item, const std::string &label) {
    static std::atomic<int> left{64};
    if (left.load(std::memory_order_relaxed) <= 0 || left.fetch_sub(1, std::memory_order_relaxed) <= 0) {
        return;
    }
    for (const std::string &name : names_of(item, label, 0)) {
        if (name.compare(0, label.size() + 1, label + '#') == 0 && left.exchange(0) >= 0) {
            std::cerr << "femtobarn: found no product " << label << " of type " << type_name<Value>()
                      << ", but one of type " << name.substr(label.size() + 1)
                      << "; use the namespace that fb ingest used\n";
            return;
        }
    }
}

} // namespace fb::detail

#endif
