# Spack package of haul. In a repository of your own (`spack repo create`), it goes to
# packages/haul/package.py.

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *

# Where the source archive is, and its checksum: fill in both.
SOURCE_ADDRESS = "@SOURCE_ADDRESS@"
SOURCE_SHA256 = "@SOURCE_SHA256@"


class Haul(Package):
    """Copies file trees as fast as the hardware allows, on one host or with many by MPI."""

    homepage = SOURCE_ADDRESS
    url = f"{SOURCE_ADDRESS}/haul-0.1.0.tar.gz"

    license("MIT OR Apache-2.0", checked_by="haul")

    version("0.1.0", sha256=SOURCE_SHA256)

    # PCRE2 and zstd are built from the C sources that their crates contain. MPI is no dependency:
    # haul loads the library that the launcher of a run belongs to.
    depends_on("c", type="build")
    depends_on("rust@1.89:", type="build")
    conflicts("platform=darwin")
    conflicts("platform=windows")

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("--locked", "xtask", "install", "--prefix", prefix)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def smoke_test(self):
        Executable("sh")("packaging/smoke.sh", self.prefix.bin.haul)

    def test_copy(self):
        """copy a tree and verify it"""
        haul = which(self.prefix.bin.haul, required=True)
        mkdirp("source")
        with open("source/file", "w") as file:
            file.write("content")
        haul("cp", "-a", "--verify", "source", "target")
        haul("cmp", "source", "target")
