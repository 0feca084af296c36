/// How a queue is used.
#ifndef HEPNOS_QUEUEACCESSMODE_HPP
#define HEPNOS_QUEUEACCESSMODE_HPP

namespace hepnos {

enum class QueueAccessMode : bool { CONSUMER = false, PRODUCER = true };

} // namespace hepnos

#endif
