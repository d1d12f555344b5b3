//! The C++ compiler with raidshmem added; see `raidshmem::wrapper`.

fn main() -> std::process::ExitCode {
    raidshmem::wrapper::OSHCXX.main()
}
