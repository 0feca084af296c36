/// A container that is iterated over with a prefetcher.
#ifndef HEPNOS_PREFETCHABLE_HPP
#define HEPNOS_PREFETCHABLE_HPP

namespace hepnos {

class Prefetcher;

template <typename Container>
class Prefetchable {
public:
    Prefetchable(const Prefetchable &) = delete;
    Prefetchable(Prefetchable &&) = default;
    Prefetchable &operator=(const Prefetchable &) = delete;
    Prefetchable &operator=(Prefetchable &&) = delete;

    typename Container::iterator begin() { return m_container.begin(m_prefetcher); }
    typename Container::iterator end() { return m_container.end(); }
    typename Container::const_iterator begin() const { return m_container.begin(m_prefetcher); }
    typename Container::const_iterator end() const { return m_container.end(); }

private:
    friend class Prefetcher;

    Prefetchable(const Container &container, const Prefetcher &prefetcher)
        : m_container(container), m_prefetcher(prefetcher) {}

    Container m_container;
    const Prefetcher &m_prefetcher;
};

} // namespace hepnos

#endif
