/// Boost binary archives without header, the form in which products are stored.
#ifndef HEPNOS_OUTPUTARCHIVE_HPP
#define HEPNOS_OUTPUTARCHIVE_HPP

#include <boost/archive/binary_oarchive.hpp>
#include <boost/archive/impl/basic_binary_oarchive.ipp>
#include <boost/archive/impl/basic_binary_oprimitive.ipp>

#include <ostream>
#include <streambuf>
#include <string>

namespace hepnos {

class OutputArchive;

using oarchive =
    boost::archive::binary_oarchive_impl<OutputArchive, std::ostream::char_type, std::ostream::traits_type>;

/// A stream buffer that writes to a string.
class OutputStringWrapper : public std::streambuf {
public:
    explicit OutputStringWrapper(std::string &text) : m_text(text) {}

    std::string &text() { return m_text; }

protected:
    std::streamsize xsputn(const char *bytes, std::streamsize n) override {
        m_text.append(bytes, static_cast<std::size_t>(n));
        return n;
    }

    int_type overflow(int_type c) override {
        if (!traits_type::eq_int_type(c, traits_type::eof())) {
            m_text.push_back(traits_type::to_char_type(c));
        }
        return traits_type::not_eof(c);
    }

private:
    std::string &m_text;
};

class OutputArchive : public oarchive {
    friend class boost::archive::detail::interface_oarchive<OutputArchive>;
    friend class boost::archive::basic_binary_oarchive<OutputArchive>;
    friend class boost::archive::save_access;

    // a locale for each archive would cost more than most products, and bytes need none
    static constexpr unsigned flags = boost::archive::no_header | boost::archive::no_codecvt;

public:
    /// An archive that writes to a stream or a stream buffer.
    template <typename Output>
    explicit OutputArchive(Output &output) : oarchive(output, flags) {
        init(flags);
    }
    explicit OutputArchive(OutputStringWrapper &output)
        : oarchive(static_cast<std::streambuf &>(output), flags), m_text(&output.text()) {
        init(flags);
    }

    /// Replaces Boost's function, which is called for every number: writes to a string without a stream.
    void save_binary(const void *bytes, std::size_t n) {
        if (m_text) {
            m_text->append(static_cast<const char *>(bytes), n);
        } else {
            oarchive::save_binary(bytes, n);
        }
    }

private:
    std::string *m_text = nullptr;
};

class OutputStream : public std::ostream {
public:
    explicit OutputStream(OutputStringWrapper &buffer) : std::ostream(&buffer) {}
};

} // namespace hepnos

BOOST_SERIALIZATION_USE_ARRAY_OPTIMIZATION(hepnos::OutputArchive)
BOOST_SERIALIZATION_REGISTER_ARCHIVE(hepnos::OutputArchive)

#endif
