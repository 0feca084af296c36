/// Boost binary archives with a reference to their store, so that loaded values can refer to products.
#ifndef HEPNOS_INPUTARCHIVE_HPP
#define HEPNOS_INPUTARCHIVE_HPP

#include <hepnos/detail/data_store.hpp>

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/impl/basic_binary_iarchive.ipp>
#include <boost/archive/impl/basic_binary_iprimitive.ipp>

#include <cstring>
#include <istream>
#include <streambuf>
#include <string_view>
#include <utility>

namespace hepnos {

class InputArchive;

using iarchive =
    boost::archive::binary_iarchive_impl<InputArchive, std::istream::char_type, std::istream::traits_type>;

/// A stream buffer that reads from bytes.
class InputStringWrapper : public std::streambuf {
public:
    InputStringWrapper(const char *data, std::size_t size) {
        char *first = const_cast<char *>(data); // required by streambuf; nothing is written
        setg(first, first, first + size);
    }

    /// Copies the next bytes; returns whether there were enough.
    bool take(void *bytes, std::size_t n) {
        if (static_cast<std::size_t>(egptr() - gptr()) < n) {
            return false;
        }
        std::memcpy(bytes, gptr(), n);
        setg(eback(), gptr() + n, egptr());
        return true;
    }
};

class InputArchive : public iarchive {
    friend class boost::archive::detail::interface_iarchive<InputArchive>;
    friend class boost::archive::basic_binary_iarchive<InputArchive>;
    friend class boost::archive::load_access;

    static constexpr unsigned flags = boost::archive::no_header | boost::archive::no_codecvt;

public:
    /// An archive that reads from a stream or a stream buffer.
    template <typename Input>
    InputArchive(DataStore datastore, Input &input)
        : iarchive(input, flags), m_datastore(std::move(datastore)) {
        init(flags);
    }
    InputArchive(DataStore datastore, InputStringWrapper &input)
        : iarchive(static_cast<std::streambuf &>(input), flags), m_datastore(std::move(datastore)),
          m_input(&input) {
        init(flags);
    }

    const DataStore &datastore() const { return m_datastore; }

    /// Replaces Boost's function, which is called for every number: reads from a string without a stream.
    void load_binary(void *bytes, std::size_t n) {
        if (!m_input) {
            iarchive::load_binary(bytes, n);
        } else if (!m_input->take(bytes, n)) {
            using boost::archive::archive_exception;
            boost::serialization::throw_exception(archive_exception(archive_exception::input_stream_error));
        }
    }

    /// The class information in an archive before the first object.
    struct ClassInfo {
        bool is_known = false;
        bool is_tracked = false;
        boost::archive::version_type version;
    };

    /// Loads an object; returns the class information of the archive, if any.
    template <typename T>
    ClassInfo load_first(T &object) {
        m_info = ClassInfo();
        m_has_tracking = false;
        *this >> object;
        return m_info;
    }

protected:
    template <typename T>
    void load_override(T &value) {
        iarchive::load_override(value);
    }
    void load_override(boost::archive::tracking_type &tracking) {
        iarchive::load_override(tracking);
        // from a damaged product, Boost makes a bool that is neither true nor false
        unsigned char byte = 0;
        static_assert(sizeof byte == sizeof tracking, "it has one bool");
        std::memcpy(&byte, static_cast<const void *>(&tracking), sizeof byte);
        if (byte > 1) {
            using boost::archive::archive_exception;
            boost::serialization::throw_exception(archive_exception(archive_exception::input_stream_error));
        }
        if (!m_has_tracking) { // the object's own comes before those of its members
            m_info.is_tracked = byte != 0;
            m_has_tracking = true;
        }
    }
    void load_override(boost::archive::version_type &version) {
        iarchive::load_override(version);
        if (!m_info.is_known) {
            m_info.version = version;
            m_info.is_known = m_has_tracking;
        }
    }

private:
    DataStore m_datastore;
    InputStringWrapper *m_input = nullptr;
    ClassInfo m_info;
    bool m_has_tracking = false;
};

class InputStream : public std::istream {
public:
    explicit InputStream(InputStringWrapper &buffer) : std::istream(&buffer) {}
};

} // namespace hepnos

BOOST_SERIALIZATION_USE_ARRAY_OPTIMIZATION(hepnos::InputArchive)
BOOST_SERIALIZATION_REGISTER_ARCHIVE(hepnos::InputArchive)

#endif
