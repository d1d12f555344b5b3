"""A Spack recipe that builds the tree in which it lies.

    spack repo add packaging/spack
    spack install raidshmem
"""

from pathlib import Path

from spack.package import *


class Raidshmem(Package):
    """OpenSHMEM whose programs survive the death of processes and nodes: checkpoints in memory,
    striped over the processing elements with XOR or Reed-Solomon parity."""

    git = Path(__file__).resolve().parents[4].as_uri()
    license("MIT OR Apache-2.0")

    version("main", branch="main")

    variant("ucx", default=True, description="UCX, which is loaded at run time, for networks")
    variant("verbs", default=False, description="libibverbs, loaded at run time, for RDMA")
    variant("ofi", default=False, description="libfabric, loaded at run time, for Slingshot")

    depends_on("c", type="build")
    depends_on("rust@1.89:", type="build")
    depends_on("gmake", type="build")
    depends_on("binutils", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2:")
    depends_on("ucx", when="+ucx", type=("build", "run"))
    depends_on("libfabric@1.17:", when="+ofi", type=("build", "run"))
    depends_on("rdma-core", when="+verbs", type=("build", "run"))

    provides("shmem")

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("build", "--release", "--workspace", "--locked", "--target-dir", "target")
        make("install", f"PREFIX={prefix}", "BUILT=target/release")

    def setup_run_environment(self, env):
        for name in ("ucx", "libfabric", "rdma-core"):
            if name in self.spec:
                env.prepend_path("LD_LIBRARY_PATH", self.spec[name].prefix.lib)
