# Everything is built by cargo; this file only names entry points. CARGO_TARGET_DIR is respected.

CARGO   ?= cargo
PREFIX  ?= /usr/local
DESTDIR ?=
# The library folder below PREFIX: lib, lib64, or lib/x86_64-linux-gnu.
LIB     ?= lib

# rustup's folder of cargo, for shells without it in PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET  := $(abspath $(or $(CARGO_TARGET_DIR),target))
RELEASE := $(TARGET)/release
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
INTO    := $(DESTDIR)$(PREFIX)
BUILT   ?= $(RELEASE)
# The soname that programs link to, and the file that it points to.
SONAME  := $(shell sed -n 's/^const SONAME: &str = "\(.*\)";/\1/p' build.rs)
LIBRARY := libraidshmem.so.$(VERSION)
# The version of the specification, also used for the CMake package.
MAJOR   := $(shell sed -n 's/^.define SHMEM_MAJOR_VERSION //p' include/shmem.h)
MINOR   := $(shell sed -n 's/^.define SHMEM_MINOR_VERSION //p' include/shmem.h)
FILL    := sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@LIB@|$(LIB)|' \
    -e 's|@SONAME@|$(SONAME)|' -e 's|@STANDARD@|$(MAJOR).$(MINOR)|' -e 's|@MAJOR@|$(MAJOR)|'
HEADERS := $(patsubst include/%,%,$(wildcard include/*.h include/*.hpp include/*/*.h))

# All installed files, below PREFIX: `make uninstall` removes them.
PROGRAMS  := oshrun oshcc oshinfo oshreport oshadvise oshc++
MAN_LINKS := man1/oshc++.1 man1/oshcxx.1 man1/oshCC.1 man3/shmemx_ft_register.3 \
    man3/shmemx_ft_include.3 man3/shmemx_ft_writable.3 man3/shmemx_ft_checkpoint_number.3 \
    man3/shmemx_ft_faulted.3 man3/shmemx_ft_protected.3
PAGES     := $(foreach page,$(notdir $(wildcard man/*.[137])), \
    man$(subst .,,$(suffix $(page)))/$(page))
SHARED    := $(wildcard monitoring/*.yml monitoring/*.json) \
    $(patsubst docs/%,%,$(wildcard docs/schema/*.json))
CMAKE     := $(LIB)/cmake/OpenSHMEM
# For `module use` on the folder above it: in Tcl, and in Lua for Lmod.
MODULES   := share/raidshmem/modulefiles/raidshmem
# Completions of command lines, by the commands themselves.
COMPLETED := oshrun oshinfo oshreport oshadvise
BASH_HERE := share/bash-completion/completions
ZSH_HERE  ?= share/zsh/site-functions
FISH_HERE := share/fish/vendor_completions.d
INSTALLED := $(addprefix bin/,$(PROGRAMS) oshcxx oshCC) \
    $(addprefix $(LIB)/,$(LIBRARY) $(SONAME) libraidshmem.so pkgconfig/raidshmem.pc) \
    $(addprefix $(CMAKE)/,OpenSHMEMConfig.cmake OpenSHMEMConfigVersion.cmake) \
    $(addprefix include/,$(HEADERS)) $(addprefix share/man/,$(PAGES) $(MAN_LINKS)) \
    share/raidshmem/raidshmem.supp $(addprefix share/raidshmem/,$(SHARED)) \
    $(addprefix $(MODULES)/,$(VERSION) $(VERSION).lua) \
    $(addprefix $(BASH_HERE)/,$(COMPLETED)) $(addprefix $(ZSH_HERE)/_,$(COMPLETED)) \
    $(patsubst %,$(FISH_HERE)/%.fish,$(COMPLETED)) \
    $(patsubst %,bin/.debug/%.debug,$(PROGRAMS)) $(LIB)/.debug/$(LIBRARY).debug

.PHONY: build demo test test-all test-nodes test-arm test-memory-model sanitize soak mutants
.PHONY: scorecard scorecard-quick scaling evaluation local applications advise install
.PHONY: uninstall deb book paper clean help

build:
	@.ci/setup build
	$(CARGO) build --release --workspace --locked
	@ln -sf oshcxx '$(RELEASE)/oshc++'
	@echo 'built in $(RELEASE): next, make demo, make test or make install'

demo: build
	@examples/demo.sh '$(RELEASE)'

# Tests for newcomers: a few minutes, compilers only.
test:
	@.ci/setup quick
	@.ci/test quick

# All tests that one machine can run; CI runs them.
test-all:
	@.ci/setup test
	@.ci/test all

# Tests on emulated machines with soft-RoCE; CI runs them after `make test-all`.
test-nodes:
	@.ci/setup nodes
	@.ci/test nodes

# Everything built for AArch64, and its tests and jobs under QEMU's emulator of programs; ARM=FOLDER
# holds a Debian with the compilers. Not part of CI.
test-arm:
	@.ci/setup arm
	@.ci/arm

# The lock-free structures over the atomics of a memory model, with each access weakened in turn.
# Not part of CI.
test-memory-model:
	@.ci/setup build
	cd tests/memory_model && CARGO_TARGET_DIR='$(TARGET)/memory_model' $(CARGO) test --locked

# The C programs under AddressSanitizer and UndefinedBehaviorSanitizer; part of `make test-all` too.
sanitize:
	@.ci/setup test
	$(CARGO) test --locked --test sanitize

# Every figure, compared with real peers: target/scorecard.json. RECORD=1 keeps it in
# benches/record; VERBS=1 adds RDMA between guests.
scorecard scorecard-quick:
	@.ci/setup peers
	@$(if $(VERBS),.ci/setup nodes)
	$(CARGO) build --release --workspace --locked
	$(CARGO) bench --locked --bench scorecard -- \
	    $(if $(findstring quick,$@),--quick) \
	    $(if $(VERBS),--guests) \
	    $(if $(RECORD),--record)

soak: build
	@.ci/soak
	@.ci/mutants

# Breaks rules one at a time, and prints the tier of tests that notices: NAMES="no-barrier-b ..."
# selects some.
mutants:
	@.ci/setup build
	@.ci/mutants $(NAMES)

# Cost of checkpoint and rebuild against bytes, PEs, group size and parity: target/scaling*.
# START=1: time of jobs of 64 to 1,024 PEs that only start and end, compared with Open MPI.
scaling: build
	@.ci/setup $(if $(START),peers,build)
	$(CARGO) bench --locked --bench scaling -- \
		$(if $(START),--start) $(if $(QUICK),--quick) $(if $(RECORD),--record)

# The evaluation of the thesis, extended: target/evaluation, in a quarter of an hour at most.
# ROUNDS=N measures N times; FULL=1 has larger sizes and no limit; SEED=N seeds the death times.
evaluation: build
	@.ci/setup build
	$(CARGO) bench --locked --bench evaluation -- \
		$(if $(FULL),--full) $(if $(TINY),--tiny) $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(SEED),--seed $(SEED)) $(if $(RECORD),--record)

# Local rollback compared with global rollback, in some minutes: target/local. ROUNDS=N measures N
# times.
local: build
	@.ci/setup build
	$(CARGO) bench --locked --bench local -- \
		$(if $(TINY),--tiny) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(RECORD),--record)

# The cost of survival in four applications, in some minutes: target/applications. ROUNDS=N measures
# N times.
applications: build
	@.ci/setup test
	$(CARGO) test --locked --workspace --test shmem4py -- training
	$(CARGO) bench --locked --bench applications -- \
		$(if $(TINY),--tiny) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(RECORD),--record)

# The findings of oshadvise in three programs, and the cost of checkpoints under its plan:
# benches/advise.
advise: build
	@.ci/setup test
	$(CARGO) bench --locked --bench advise

# Installs the output of `make build`; builds nothing, so that root can run it. Debug symbols are
# stripped: SYMBOLS=yes keeps them in separate files (.debug/ next to each program, twenty times as
# large as the program), and STRIP=no keeps them in place.
install:
	@test -x '$(BUILT)/oshrun' || { echo 'make install: run make build first' >&2; exit 2; }
	install -d '$(INTO)/bin' '$(INTO)/$(LIB)/pkgconfig' '$(INTO)/$(CMAKE)'
	install -d '$(INTO)/include/mpp' '$(INTO)/share/man/man1' '$(INTO)/share/man/man3' \
	    '$(INTO)/share/man/man7' '$(INTO)/share/raidshmem/monitoring' \
	    '$(INTO)/share/raidshmem/schema' '$(INTO)/$(MODULES)' \
	    '$(INTO)/$(BASH_HERE)' '$(INTO)/$(ZSH_HERE)' '$(INTO)/$(FISH_HERE)'
	install -m 755 '$(BUILT)/oshrun' '$(BUILT)/oshcc' '$(BUILT)/oshinfo' '$(BUILT)/oshreport' \
	    '$(BUILT)/oshadvise' \
	    '$(INTO)/bin'
	install -m 755 '$(BUILT)/oshcxx' '$(INTO)/bin/oshc++'
	for name in oshcxx oshCC; do ln -sf oshc++ "$(INTO)/bin/$$name"; done
	install -m 755 '$(BUILT)/libraidshmem.so' '$(INTO)/$(LIB)/$(LIBRARY)'
	ln -sf '$(LIBRARY)' '$(INTO)/$(LIB)/$(SONAME)'
	ln -sf '$(SONAME)' '$(INTO)/$(LIB)/libraidshmem.so'
	$(if $(filter no,$(STRIP)),,packaging/strip.sh $(if $(filter yes,$(SYMBOLS)),keep,drop) \
	    '$(INTO)/$(LIB)/$(LIBRARY)' $(foreach name,$(PROGRAMS),'$(INTO)/bin/$(name)'))
	for header in $(HEADERS); do install -m 644 "include/$$header" "$(INTO)/include/$$header"; done
	$(FILL) raidshmem.pc.in > '$(INTO)/$(LIB)/pkgconfig/raidshmem.pc'
	for file in OpenSHMEMConfig.cmake OpenSHMEMConfigVersion.cmake; do \
	    $(FILL) "$$file.in" > "$(INTO)/$(CMAKE)/$$file"; done
	install -m 644 man/*.1 '$(INTO)/share/man/man1'
	install -m 644 man/*.3 '$(INTO)/share/man/man3'
	install -m 644 man/*.7 '$(INTO)/share/man/man7'
	install -m 644 packaging/raidshmem.supp '$(INTO)/share/raidshmem'
	install -m 644 monitoring/*.yml monitoring/*.json '$(INTO)/share/raidshmem/monitoring'
	install -m 644 docs/schema/*.json '$(INTO)/share/raidshmem/schema'
	for end in '' .lua; do $(FILL) "packaging/modulefiles/raidshmem$$end" \
	    > "$(INTO)/$(MODULES)/$(VERSION)$$end"; done
	set -e; for name in $(COMPLETED); do command='$(BUILT)'/$$name; \
	    "$$command" --completions bash > "$(INTO)/$(BASH_HERE)/$$name"; \
	    "$$command" --completions zsh > "$(INTO)/$(ZSH_HERE)/_$$name"; \
	    "$$command" --completions fish > "$(INTO)/$(FISH_HERE)/$$name.fish"; done
	for name in oshc++ oshcxx oshCC; do \
	    ln -sf oshcc.1 "$(INTO)/share/man/man1/$$name.1"; done
	cd '$(INTO)/share/man/man3' && ln -sf shmemx_ft_protect.3 shmemx_ft_register.3 && \
	    ln -sf shmemx_ft_exclude.3 shmemx_ft_include.3 && \
	    ln -sf shmemx_ft_flush.3 shmemx_ft_protected.3 && \
	    ln -sf shmemx_ft_readonly.3 shmemx_ft_writable.3 && for name in checkpoint_number faulted; \
	    do ln -sf shmemx_ft_last_error.3 "shmemx_ft_$$name.3"; done
	@echo 'installed in $(INTO): next, export PATH=$(PREFIX)/bin:$$PATH'

# Removes the files of `make install` with the same PREFIX, DESTDIR and LIB; shared folders stay.
uninstall:
	rm -f $(foreach file,$(INSTALLED),'$(INTO)/$(file)')
	for folder in bin/.debug '$(LIB)/.debug' '$(CMAKE)' include/mpp '$(MODULES)' \
	    share/raidshmem/modulefiles share/raidshmem/monitoring share/raidshmem/schema \
	    share/raidshmem; do \
	    [ ! -d "$(INTO)/$$folder" ] || \
	    rmdir --ignore-fail-on-non-empty "$(INTO)/$$folder"; done

# Debian packages in target/deb, including those of debug symbols. Checks for the packaging tools
# before building.
deb:
	@.ci/setup deb
	@$(MAKE) --no-print-directory build
	packaging/deb.sh '$(RELEASE)' '$(TARGET)/deb'

# The documents as a book, in target/book, with the programs that its pages link to; mdBook is
# installed below target if it is missing.
MDBOOK := 0.5.4
book:
	@.ci/setup build
	@command -v mdbook > /dev/null || [ -x '$(TARGET)/tools/bin/mdbook' ] || \
	    $(CARGO) install mdbook --locked --version $(MDBOOK) --root '$(TARGET)/tools' \
	        --no-default-features --features search
	@rm -rf '$(TARGET)/book' && mkdir -p '$(TARGET)/book/python'
	PATH="$$PATH:$(TARGET)/tools/bin" mdbook build --dest-dir '$(TARGET)/book/docs'
	@cp -r examples '$(TARGET)/book' && cp -r python/examples '$(TARGET)/book/python'
	@echo 'book: $(TARGET)/book/docs/index.html'

# The paper as PDF and HTML, in target/paper; Typst is installed below target.
paper:
	@.ci/setup paper
	@'$(TARGET)/tools/typst/bin/python' whitepaper/build.py '$(TARGET)/paper'

clean:
	$(CARGO) clean

help:
	@echo 'make build     build the library, oshrun, oshcc, oshc++, oshinfo, oshreport, oshadvise'
	@echo 'make demo      build, then a Jacobi run that loses a PE and a node, in under a minute'
	@echo 'make test      the tests a newcomer runs, in minutes; the last lines say what failed'
	@echo 'make test-all  formatting, lints and every test that one machine can run'
	@echo 'make test-nodes  nodes that are machines in software, with soft-RoCE (QEMU)'
	@echo 'make test-arm  everything for AArch64, under an emulator (root)'
	@echo 'make test-memory-model  lock-free structures in all orders that a processor may choose'
	@echo 'make soak      the simulator, then Jacobi with faults, over and over (MINUTES=10 SEED=..)'
	@echo 'make sanitize  the C programs under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make scorecard every figure beside ISA-L, memcpy and Open MPI (10 minutes;'
	@echo '               scorecard-quick: 2); RECORD=1 keeps the result in benches/record,'
	@echo '               VERBS=1 adds RDMA between machines in software (QEMU; 10 more)'
	@echo 'make scaling   cost against bytes, PEs, group size, parity: CSV, plots, model (QUICK=1)'
	@echo 'make evaluation  what the thesis measured, in all modes, with real faults: CSV and plots'
	@echo '               (a quarter of an hour; ROUNDS=3 FULL=1 RECORD=1)'
	@echo 'make local     a lost PE that rolls back locally, beside all going back (ROUNDS=5 RECORD=1)'
	@echo 'make applications  what survival costs four applications (ROUNDS=7 RECORD=1)'
	@echo 'make advise    what oshadvise finds, and checkpoints under its plan: a record and plots'
	@echo 'make install   copy what was built to PREFIX=/usr/local (DESTDIR= is put before it);'
	@echo '               SYMBOLS=yes keeps symbols for debuggers; make uninstall removes it all'
	@echo 'make deb       Debian packages in target/deb'
	@echo 'make book      the documents as a book (mdBook): target/book/docs/index.html'
	@echo 'make paper     the paper as PDF and HTML: target/paper'
	@echo 'make clean     remove what was built'
