/// The exception of all classes of this library.
#ifndef HEPNOS_EXCEPTION_HPP
#define HEPNOS_EXCEPTION_HPP

#include <exception>
#include <string>

namespace hepnos {

class Exception : public std::exception {
public:
    Exception() = default;
    Exception(const std::string &message) : m_message(message) {}

    const char *what() const noexcept override { return m_message.c_str(); }

private:
    std::string m_message;
};

} // namespace hepnos

#endif
