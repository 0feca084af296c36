"""The Spack package of femtobarn's library for C and C++.

spack repo add packaging/spack/spack_repo/femtobarn && spack install femtobarn
"""

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Femtobarn(Package):
    """Reads RNTuple and TTree, also for ROOT's RDataFrame, and stores collision events; for C and C++."""

    homepage = "https://github.com/femtobarn/femtobarn"
    git = "https://github.com/femtobarn/femtobarn.git"

    license("Apache-2.0")

    version("main", branch="main")

    variant("hepnos", default=True, description="What programs written for HEPnOS need")
    variant("root", default=False, description="ROOT, for RDataFrame")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("cmake", type="build")
    depends_on("boost+serialization", when="+hepnos")
    depends_on("mpi", when="+hepnos")
    depends_on("root@6.36:", when="+root")

    def install(self, spec, prefix):
        """Build the library, and install it with its headers and the files for CMake and pkg-config."""
        Executable(join_path(self.stage.source_path, "scripts", "install_cpp.sh"))(prefix)
