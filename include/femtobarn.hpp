/// femtobarn's event store for C++17: datasets, runs, subruns and events, and products of theirs.
///
/// Header-only, over the C ABI in femtobarn.h; link with -lfemtobarn_c. All names are in the namespace fb.
/// Errors are exceptions of the class fb::Error. A Store, and what copies of it are made into, may be used by
/// several threads at once; batches, loaders and queues by one at a time.
#ifndef FEMTOBARN_HPP
#define FEMTOBARN_HPP

#include <femtobarn/batch.hpp>
#include <femtobarn/describe.hpp>
#include <femtobarn/descriptor.hpp>
#include <femtobarn/error.hpp>
#include <femtobarn/item.hpp>
#include <femtobarn/loader.hpp>
#include <femtobarn/ptr.hpp>
#include <femtobarn/queue.hpp>
#include <femtobarn/store.hpp>
#include <femtobarn/type_name.hpp>
#include <femtobarn/value.hpp>

#endif
