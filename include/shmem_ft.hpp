// raidshmem: C++ types over shmem.h and shmem_ft.h. C++17 or newer, with exceptions; no library.
//
//     shmem::Session session;
//     shmem::Array<double> plate(size);             // symmetric memory
//     shmem::ft::Protected<State> state("state");   // private memory that checkpoints hold
//     shmem::ft::run([&](std::uint64_t number) {
//         ...                                       // from one checkpoint to the next
//         return number + 1 == steps;               // true ends the loop
//     }, 10);                                       // a checkpoint for ten steps
//
// Each type owns one resource and releases it with its scope. Calls that are collective in C are
// collective here, so every PE constructs and destroys the same objects in the same order. An
// object whose contents outlive a checkpoint is constructed before `run`: a substitute starts at
// the top of main, constructs it again, and gets the same memory. After `run` destructors leave
// arrays and teams to shmem_finalize, because a collective call would miss a PE lost since the last
// checkpoint.
//
// No destructor throws. Between a loss and the restart each makes its calls as before; they wait
// for no lost PE, and the restart discards their effects on symmetric memory. If an exception ends
// a scope on one PE only, the collective destructors of that scope wait for the other PEs: catch it
// within the scope, and end the job with shmem_global_exit.
//
// Arrays, teams and contexts move. The object that changes is private memory, so a restart does not
// undo a move or a swap made since the checkpoint: within `run`, select an array by the number of
// the step instead.
//
// Left out: transfers, atomic operations and collectives. shmem.h has type-generic names for C++.
#ifndef SHMEM_FT_HPP
#define SHMEM_FT_HPP

#include "shmem_ft.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace shmem {

namespace detail {
inline bool finished = false; // `run` has returned
}

// The library, from shmem_init to shmem_finalize.
class Session {
public:
    explicit Session(int threads = SHMEM_THREAD_SINGLE) { shmem_init_thread(threads, &threads_); }
    ~Session() { shmem_finalize(); }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    int me() const { return shmem_my_pe(); }
    int size() const { return shmem_n_pes(); }
    // Returns the level of thread support, which may differ from the one asked for.
    int threads() const { return threads_; }

private:
    int threads_ = SHMEM_THREAD_SINGLE;
};

// An array of zeroes in the symmetric heap of every PE. Created and freed collectively; an array
// that was moved from is empty, and frees nothing.
template <typename T> class Array {
    static_assert(std::is_trivially_copyable_v<T>, "other PEs copy the elements as bytes");
    static_assert(alignof(T) <= alignof(std::max_align_t), "shmem_calloc aligns no further");

public:
    explicit Array(std::size_t size)
        : data_(static_cast<T *>(shmem_calloc(size, sizeof(T)))), size_(size) {
        if (!data_ && size > 0)
            throw std::bad_alloc();
    }
    Array(Array &&other) noexcept
        : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
    // Frees the elements that this array had. Collective if it had any.
    Array &operator=(Array &&other) noexcept {
        data_ = std::move(other.data_);
        size_ = std::exchange(other.size_, 0);
        return *this;
    }

    std::size_t size() const { return size_; }
    T *data() { return data_.get(); }
    const T *data() const { return data_.get(); }
    T &operator[](std::size_t at) { return data_[at]; }
    const T &operator[](std::size_t at) const { return data_[at]; }
    T *begin() { return data(); }
    T *end() { return data() + size_; }
    const T *begin() const { return data(); }
    const T *end() const { return data() + size_; }

private:
    struct Free {
        void operator()(T *block) const {
            if (!detail::finished)
                shmem_free(block);
        }
    };
    std::unique_ptr<T[], Free> data_;
    std::size_t size_;
};

// A team that this object destroys, or no team: a split makes none on PEs outside of it.
class Team {
public:
    // Takes a team that was just made, such as that of shmemx_ft_shrink.
    explicit Team(shmem_team_t made) : team_(made) {}
    // Splits a parent, as shmem_team_split_strided does. Collective in the parent.
    Team(shmem_team_t parent, int start, int stride, int size) {
        shmem_team_split_strided(parent, start, stride, size, nullptr, 0, &team_);
    }
    ~Team() {
        if (*this && !detail::finished)
            shmem_team_destroy(team_);
    }
    Team(Team &&other) noexcept : team_(std::exchange(other.team_, SHMEM_TEAM_INVALID)) {}
    // Exchanges the teams: the one that this object had is destroyed with `other`.
    Team &operator=(Team &&other) noexcept {
        std::swap(team_, other.team_);
        return *this;
    }

    explicit operator bool() const { return team_ != SHMEM_TEAM_INVALID; }
    operator shmem_team_t() const { return team_; }
    int me() const { return shmem_team_my_pe(team_); }
    int size() const { return shmem_team_n_pes(team_); }

private:
    shmem_team_t team_ = SHMEM_TEAM_INVALID;
};

// A communication context. Its operations are complete when its scope ends. Local.
class Context {
public:
    // One of its own, or the default one if the library has no more.
    explicit Context(long options = 0) {
        if (shmem_ctx_create(options, &context_) != 0)
            context_ = SHMEM_CTX_DEFAULT;
    }
    // One whose PEs are numbered as in the team, which must outlive it. Throws std::bad_alloc if
    // the library has no more, or there is no team.
    explicit Context(const Team &team, long options = 0) {
        if (shmem_team_create_ctx(team, options, &context_) != 0)
            throw std::bad_alloc();
    }
    ~Context() {
        if (context_ == SHMEM_CTX_INVALID)
            return;
        shmem_ctx_quiet(context_);
        if (context_ != SHMEM_CTX_DEFAULT)
            shmem_ctx_destroy(context_);
    }
    Context(Context &&other) noexcept
        : context_(std::exchange(other.context_, SHMEM_CTX_INVALID)) {}
    // Exchanges the contexts: the one that this object had is destroyed with `other`.
    Context &operator=(Context &&other) noexcept {
        std::swap(context_, other.context_);
        return *this;
    }

    operator shmem_ctx_t() const { return context_; }

private:
    shmem_ctx_t context_ = SHMEM_CTX_INVALID;
};

// A lock in symmetric memory, held until the scope ends. A restart brings the lock back as the
// checkpoint has it, so a scope does not reach over a checkpoint.
class Guard {
public:
    explicit Guard(long &lock) : lock_(lock) { shmem_set_lock(&lock_); }
    ~Guard() { shmem_clear_lock(&lock_); }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;

private:
    long &lock_;
};

namespace ft {

// An object in private memory that checkpoints hold and a restart brings back, under a name of its
// own. Every PE constructs it before `run` and destroys it after. It stays where it is: the library
// has its address.
template <typename T> class Protected {
    static_assert(std::is_trivially_copyable_v<T>, "a restart copies the object as bytes");

public:
    // `name` stays as long as the object, as a literal does.
    explicit Protected(const char *name, const T &value = T()) : name_(name), object_(value) {
        shmemx_ft_protect(name_, &object_, sizeof object_);
    }
    ~Protected() { shmemx_ft_protect(name_, &object_, 0); }
    Protected(const Protected &) = delete;
    Protected &operator=(const Protected &) = delete;

    T &operator*() { return object_; }
    const T &operator*() const { return object_; }
    T *operator->() { return &object_; }
    const T *operator->() const { return &object_; }

private:
    const char *name_;
    T object_;
};

// A checkpoint on disk, of any number of PEs; shmem_ft.h has the names of its objects. Each PE
// reads for itself. A failure throws std::runtime_error.
class CheckpointSet {
public:
    // Opens set 7 of a folder ("DIR@7"), or its newest whole one ("DIR").
    explicit CheckpointSet(const char *dir) : set_(shmemx_ft_set_open(dir)) { check(set_ >= 0); }
    ~CheckpointSet() { shmemx_ft_set_close(set_); }
    CheckpointSet(const CheckpointSet &) = delete;
    CheckpointSet &operator=(const CheckpointSet &) = delete;

    // The number of PEs that wrote it; zero if it holds no object.
    int size() const {
        const char *name;
        int pes = 0;
        std::size_t bytes;
        shmemx_ft_set_list(set_, 0, &name, &pes, &bytes);
        return pes;
    }
    // Copies elements of an object of a PE, from element `first` on.
    template <typename T>
    void read(const char *object, int pe, std::size_t first, T *dest, std::size_t count) const {
        static_assert(std::is_trivially_copyable_v<T>, "the set holds the elements as bytes");
        check(shmemx_ft_set_read(set_, object, pe, first * sizeof(T), dest, count * sizeof(T)) ==
              SHMEM_FT_SUCCESS);
    }

private:
    static void check(bool done) {
        if (!done)
            throw std::runtime_error(shmemx_ft_set_error());
    }
    int set_;
};

// A lost PE, and SHMEM_FT_PE_FAILED or another status of shmem_query_fault.
struct Loss {
    int pe;
    int status;
};

// Returns the PEs lost since this PE last saw a complete job.
inline std::vector<Loss> losses() {
    int *pes = nullptr, *status = nullptr;
    std::size_t count = 0;
    shmem_query_fault(&pes, &status, &count);
    std::unique_ptr<int, decltype(&std::free)> first(pes, &std::free), second(status, &std::free);
    std::vector<Loss> all;
    for (std::size_t i = 0; i < count; i++)
        all.push_back({pes[i], status[i]});
    return all;
}

// Acknowledges the known losses: all PEs, with substitutes for the lost, are back at the last
// checkpoint; without rollback this PE goes on with those that live.
inline void restart() {
    int *pes = nullptr, *status = nullptr;
    std::size_t count = 0;
    shmem_query_fault(&pes, &status, &count);
    shmem_restart_pes(pes, count);
    std::free(pes);
    std::free(status);
}

// Runs steps, over every loss that the parity covers, with a checkpoint before every `every` steps
// (0 is taken for 1) and after the last. Collective, and once in a program, in main.
//
// `step(number)` counts from zero and returns true when the work is done, on every PE in the same
// step. After a loss every PE repeats the steps since the last checkpoint. Between a loss and the
// restart gets give zeroes, so an exception thrown then is dropped, and the PE waits for the
// restart; any other one ends the loop. A refused checkpoint is passed over. Returns once every PE
// has finished. From then on a PE can be lost without notice, so the last step computes the result,
// and what follows only prints it.
template <typename Step> void run(Step &&step, std::uint64_t every = 1) {
    struct Progress {
        std::uint64_t number;
        bool done, dropped; // the second: an exception, so a restart is due
    };
    Protected<Progress> progress("shmem::ft::run");
    for (;;) {
        if (progress->number % (every ? every : 1) == 0 || progress->done || progress->dropped) {
            if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
                restart();
                shmem_barrier_all();
                progress->dropped = false; // for jobs without rollback
                continue;
            }
            if (progress->done) {
                detail::finished = true;
                return;
            }
        }
        try {
            progress->done = step(progress->number);
            progress->number++;
        } catch (...) {
            if (!shmemx_ft_faulted())
                throw;
            progress->dropped = true;
        }
    }
}

} // namespace ft
} // namespace shmem

#endif
