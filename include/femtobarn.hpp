/// femtobarn for C++17: ntuples, and the event store with datasets, runs, subruns, events and their products.
///
/// femtobarn/rdf.hxx, for ROOT's RDataFrame, is included on its own.
///
/// Header-only, based on the C ABI in femtobarn.h; link with -lfemtobarn_c. All names are in the namespace
/// fb. Errors are thrown as fb::Error. Several threads may use an NTuple or a Store and their copies at the same time; a
/// batch, loader or queue may be used by one thread at a time.
#ifndef FEMTOBARN_HPP
#define FEMTOBARN_HPP

#include <femtobarn/batch.hpp>
#include <femtobarn/describe.hpp>
#include <femtobarn/descriptor.hpp>
#include <femtobarn/error.hpp>
#include <femtobarn/container.hpp>
#include <femtobarn/loader.hpp>
#include <femtobarn/ntuple.hpp>
#include <femtobarn/ptr.hpp>
#include <femtobarn/queue.hpp>
#include <femtobarn/store.hpp>
#include <femtobarn/type_name.hpp>
#include <femtobarn/value.hpp>
#include <femtobarn/writer.hpp>

#endif
