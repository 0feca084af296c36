# femtobarn's headers with HEPnOS's classes, under the name and the target that HEPnOS's own package has.
include(CMakeFindDependencyMacro)
find_dependency(femtobarn)
find_dependency(Boost COMPONENTS serialization)
find_dependency(MPI COMPONENTS CXX)
find_package(spdlog QUIET)

if(NOT TARGET hepnos)
    add_library(hepnos INTERFACE IMPORTED)
    target_link_libraries(hepnos INTERFACE femtobarn::femtobarn Boost::serialization MPI::MPI_CXX)
    if(spdlog_FOUND)
        target_link_libraries(hepnos INTERFACE spdlog::spdlog)
    endif()
endif()
