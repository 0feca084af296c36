/// Boost binary archives that know the store which they came from, so that what is loaded from them can refer
/// to products.
#ifndef HEPNOS_INPUTARCHIVE_HPP
#define HEPNOS_INPUTARCHIVE_HPP

#include <hepnos/detail/data_store.hpp>

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/impl/basic_binary_iarchive.ipp>
#include <boost/archive/impl/basic_binary_iprimitive.ipp>

#include <istream>
#include <streambuf>
#include <string_view>
#include <utility>

namespace hepnos {

class InputArchive;

using iarchive =
    boost::archive::binary_iarchive_impl<InputArchive, std::istream::char_type, std::istream::traits_type>;

class InputArchive : public iarchive {
    friend class boost::archive::detail::interface_iarchive<InputArchive>;
    friend class boost::archive::basic_binary_iarchive<InputArchive>;
    friend class boost::archive::load_access;

    static constexpr unsigned flags = boost::archive::no_header | boost::archive::no_codecvt;

public:
    /// One that reads from a stream or a stream buffer.
    template <typename Input>
    InputArchive(DataStore datastore, Input &input)
        : iarchive(input, flags), m_datastore(std::move(datastore)) {
        init(flags);
    }

    const DataStore &datastore() const { return m_datastore; }

private:
    DataStore m_datastore;
};

/// Bytes that streams read from.
class InputStringWrapper : public std::streambuf {
public:
    InputStringWrapper(const char *data, std::size_t size) {
        char *first = const_cast<char *>(data); // the interface of streambuf; nothing is written
        setg(first, first, first + size);
    }

    std::size_t n_left() const { return static_cast<std::size_t>(egptr() - gptr()); }
};

class InputStream : public std::istream {
public:
    explicit InputStream(InputStringWrapper &buffer) : std::istream(&buffer) {}
};

} // namespace hepnos

BOOST_SERIALIZATION_USE_ARRAY_OPTIMIZATION(hepnos::InputArchive)
BOOST_SERIALIZATION_REGISTER_ARCHIVE(hepnos::InputArchive)

#endif
