/// Names of C++ types in the keys of products: ROOT's short form, which is the same for every compiler and
/// for Python: std::vector<Particle>, std::map<std::string,std::int32_t>.
#ifndef FEMTOBARN_TYPE_NAME_HPP
#define FEMTOBARN_TYPE_NAME_HPP

#include <cxxabi.h>

#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

namespace fb {
namespace detail {

inline std::string demangled(const char *name) {
    int status = 0;
    std::unique_ptr<char, void (*)(void *)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                 std::free);
    return text ? text.get() : name;
}

inline std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') {
        text.remove_prefix(1);
    }
    while (!text.empty() && text.back() == ' ') {
        text.remove_suffix(1);
    }
    return text;
}

/// The end of the bracket that `text` begins with; the length of `text` if the bracket is not closed.
inline std::size_t end_of_bracket(std::string_view text) {
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        depth += c == '<' || c == '(' || c == '[';
        depth -= c == '>' || c == ')' || c == ']';
        if (depth == 0) {
            return i;
        }
    }
    return text.size();
}

/// Splits a string at the commas that are outside of brackets.
inline std::vector<std::string_view> split_arguments(std::string_view text) {
    std::vector<std::string_view> parts;
    int depth = 0;
    std::size_t start = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        depth += c == '<' || c == '(' || c == '[';
        depth -= c == '>' || c == ')' || c == ']';
        if (c == ',' && depth == 0) {
            parts.push_back(trimmed(text.substr(start, i - start)));
            start = i + 1;
        }
    }
    parts.push_back(trimmed(text.substr(start)));
    return parts;
}

/// How many template arguments of a standard library type must be written: arguments at the end that equal
/// their defaults are left out.
inline std::size_t n_needed(std::string_view name, const std::vector<std::string> &arguments) {
    const auto in = [name](std::initializer_list<std::string_view> names) {
        for (auto one : names) {
            if (name == one) {
                return true;
            }
        }
        return false;
    };
    if (arguments.empty()) {
        return 0;
    }
    const auto of = [](const char *what, const std::string &argument) {
        return "std::" + std::string(what) + "<" + argument + ">";
    };
    const std::string &key = arguments[0];
    std::vector<std::string> usual{key};
    if (in({"std::map", "std::multimap", "std::unordered_map", "std::unordered_multimap"})) {
        if (arguments.size() < 2) {
            return arguments.size();
        }
        usual.push_back(arguments[1]);
    }
    const std::string value = usual.size() == 2 ? of("pair", "const " + key + "," + usual[1]) : key;
    if (in({"std::set", "std::multiset", "std::map", "std::multimap"})) {
        usual.push_back(of("less", key));
    } else if (name.substr(0, 15) == "std::unordered_") {
        usual.push_back(of("hash", key));
        usual.push_back(of("equal_to", key));
    } else if (in({"std::unique_ptr"})) {
        usual.push_back(of("default_delete", key));
    } else if (!in({"std::vector", "std::list", "std::deque", "std::forward_list"})) {
        return arguments.size();
    }
    usual.push_back(of("allocator", value));
    std::size_t n = arguments.size();
    const std::size_t n_own = value == key ? 1 : 2;
    while (n > n_own && n <= usual.size() && arguments[n - 1] == usual[n - 1]) {
        --n;
    }
    return n;
}

/// ROOT's name of a number type.
inline std::string number_name(std::string_view name) {
    const auto integer = [](bool is_signed, std::size_t n_bytes) {
        return std::string(is_signed ? "std::int" : "std::uint") + std::to_string(8 * n_bytes) + "_t";
    };
    if (name == "signed char")
        return integer(true, 1);
    if (name == "unsigned char")
        return integer(false, 1);
    if (name == "short")
        return integer(true, sizeof(short));
    if (name == "unsigned short")
        return integer(false, sizeof(short));
    if (name == "int")
        return integer(true, sizeof(int));
    if (name == "unsigned int")
        return integer(false, sizeof(int));
    if (name == "long")
        return integer(true, sizeof(long));
    if (name == "unsigned long")
        return integer(false, sizeof(long));
    if (name == "long long")
        return integer(true, sizeof(long long));
    if (name == "unsigned long long")
        return integer(false, sizeof(long long));
    return std::string(name);
}

/// A number as a template argument, without its type suffix: 3ul.
inline std::string without_suffix(std::string_view text) {
    const std::size_t first = !text.empty() && text[0] == '-';
    std::size_t end = first;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) {
        ++end;
    }
    const bool is_number = end > first && text.find_first_not_of("ul", end) == std::string_view::npos;
    return std::string(is_number ? text.substr(0, end) : text);
}

/// A part of a name without brackets, with the inline namespaces of standard libraries removed.
inline std::string without_inline_namespaces(std::string_view text) {
    std::string name(text);
    for (std::string_view hidden : {"__cxx11::", "__1::", "__debug::"}) {
        const std::string whole = "std::" + std::string(hidden);
        for (std::size_t at; (at = name.find(whole)) != std::string::npos;) {
            name.erase(at + 5, hidden.size());
        }
    }
    return name;
}

inline std::string normal_name(std::string_view text);

/// The name of a C array, T[2][3], as std::array; empty if the type is not an array. The last index is the
/// innermost.
inline std::string array_name(std::string_view text) {
    std::vector<std::string_view> sizes;
    while (!text.empty() && text.back() == ']') {
        const std::size_t open = text.rfind('[');
        const std::string_view size = text.substr(open + 1, text.size() - open - 2);
        if (open == std::string_view::npos || size.empty() ||
            size.find_first_not_of("0123456789") != std::string_view::npos) {
            return "";
        }
        sizes.push_back(size);
        text = trimmed(text.substr(0, open));
    }
    if (sizes.empty() || text.empty()) {
        return "";
    }
    std::string name = normal_name(text);
    for (const std::string_view size : sizes) {
        name = "std::array<" + name + "," + std::string(size) + ">";
    }
    return name;
}

/// The name of a type in ROOT's form.
inline std::string normal_name(std::string_view text) {
    text = trimmed(text);
    if (std::string array = array_name(text); !array.empty()) {
        return array;
    }
    constexpr std::string_view east = " const";
    if (text.size() > east.size() && text.substr(text.size() - east.size()) == east) {
        return "const " + normal_name(text.substr(0, text.size() - east.size()));
    }
    std::string name;
    while (true) {
        const std::size_t open = text.find('<');
        name += without_inline_namespaces(text.substr(0, open));
        if (open == std::string_view::npos) {
            break;
        }
        text.remove_prefix(open);
        const std::size_t end = end_of_bracket(text);
        std::vector<std::string> arguments;
        for (auto argument : split_arguments(text.substr(1, end - 1))) {
            arguments.push_back(normal_name(argument));
        }
        text.remove_prefix(end < text.size() ? end + 1 : end);
        if (name == "std::basic_string" && arguments[0] == "char") {
            name = "std::string";
            continue;
        }
        const std::size_t n = n_needed(name, arguments);
        name += '<';
        for (std::size_t i = 0; i < n; ++i) {
            name += (i ? "," : "") + arguments[i];
        }
        name += '>';
    }
    return number_name(without_suffix(name));
}

} // namespace detail

/// The name of a type in the keys of products.
template <class T>
const std::string &type_name() {
    static const std::string name = detail::normal_name(detail::demangled(typeid(T).name()));
    return name;
}

} // namespace fb

#endif
