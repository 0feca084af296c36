/// HEPnOS's classes on femtobarn's event store: programs written for HEPnOS compile against these headers,
/// and run on any store that femtobarn supports. See docs/guides/cpp.md for the differences.
#ifndef HEPNOS_HPP
#define HEPNOS_HPP

#include <hepnos/AsyncEngine.hpp>
#include <hepnos/BigEndian.hpp>
#include <hepnos/DataSet.hpp>
#include <hepnos/DataStore.hpp>
#include <hepnos/Demangle.hpp>
#include <hepnos/Event.hpp>
#include <hepnos/EventNumber.hpp>
#include <hepnos/EventSet.hpp>
#include <hepnos/Exception.hpp>
#include <hepnos/ItemDescriptor.hpp>
#include <hepnos/KeyValueContainer.hpp>
#include <hepnos/Prefetcher.hpp>
#include <hepnos/ProductCache.hpp>
#include <hepnos/Ptr.hpp>
#include <hepnos/Queue.hpp>
#include <hepnos/Run.hpp>
#include <hepnos/RunNumber.hpp>
#include <hepnos/RunSet.hpp>
#include <hepnos/SubRun.hpp>
#include <hepnos/SubRunNumber.hpp>
#include <hepnos/WriteBatch.hpp>

#if __has_include(<mpi.h>)
#include <hepnos/ParallelEventProcessor.hpp>
#endif

#endif
