// md: molecular dynamics of a melting crystal: particles with a Lennard-Jones potential, cell and
// neighbour lists, and the velocity Verlet method, in reduced units.
//
// Each PE holds the particles of a slab of the periodic box. Particles near its faces are ghosts in
// the slabs beside it: their positions are put there before each computation of forces. Every ten
// steps a checkpoint is taken, particles that left a slab move to its neighbour, and the lists are
// made anew: they are private, and no checkpoint holds them. The lines that make the program
// survive are marked `survival`.
//
// Checked: no particle is lost or doubled, none moves further than the lists allow, the momentum
// stays zero, and the energy drifts by less than a part in 2,000.
#include <shmem_ft.hpp> // survival

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#ifndef ROUNDS
#define ROUNDS 8
#endif
#ifndef CELLS
#define CELLS 6 // along the shorter edges of the crystal
#endif

namespace {

using Vector = std::array<double, 3>;
using Index = std::size_t;

constexpr int steps_a_round = 10;
constexpr double density = 0.8442, heat = 1.44, cutoff = 2.5, skin = 0.5, dt = 0.004;
constexpr double reach = cutoff + skin;
constexpr std::array<int, 3> crystal = {CELLS, CELLS, 2 * CELLS};
constexpr Index particles = Index{4} * CELLS * CELLS * 2 * CELLS; // four in each cell

struct Particle {
    std::uint64_t number;
    Vector x, v, f;
};

// Sums and counts of a PE that outlive a round.
struct Totals {
    Index own;           // particles
    double start, drift; // energy, and the largest distance from it
    std::uint64_t wrong, checksum;
};

std::uint64_t mix(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// The particles of a slab, and those beside it.
class Slab {
public:
    explicit Slab(const shmem::Session &session)
        : pes(session.size()), me(session.me()), edge(std::cbrt(4 / density)),
          limit(2 * particles / static_cast<Index>(pes) + 64), particle(limit), inbox(2 * limit),
          ghost(4 * limit), arrived(2), ghosts(2), part(2), sum(2), total("totals") { // survival
        for (Index d = 0; d < 3; d++)
            box[d] = edge * crystal[d];
        low = box[2] / pes * me, high = box[2] / pes * (me + 1);
        if (high - low < reach) {
            std::fprintf(stderr, "md: too many PEs: a slab is thinner than the lists reach\n");
            shmem_global_exit(2);
        }
    }

    // Makes a face-centred crystal whose particles have random velocities without a sum.
    void fill() {
        static constexpr double corners[4][3] = {{0, 0, 0}, {.5, .5, 0}, {.5, 0, .5}, {0, .5, .5}};
        std::vector<Particle> all;
        Vector mean{};
        for (int cell = 0; cell < crystal[0] * crystal[1] * crystal[2]; cell++)
            for (const double *corner : corners) {
                Particle p{all.size(), {}, {}, {}};
                int place[3] = {cell % crystal[0], cell / crystal[0] % crystal[1],
                                cell / crystal[0] / crystal[1]};
                for (Index d = 0; d < 3; d++) {
                    p.x[d] = (place[d] + corner[d] + 0.25) * edge;
                    for (std::uint64_t i = 0; i < 12; i++) // twelve numbers: about normal
                        p.v[d] += static_cast<double>(mix(36 * p.number + 12 * d + i + 1) >> 11) *
                                  0x1p-53;
                    p.v[d] = (p.v[d] - 6) * std::sqrt(heat);
                    mean[d] += p.v[d] / particles;
                }
                all.push_back(p);
            }
        total->own = 0;
        for (Particle &p : all) {
            for (Index d = 0; d < 3; d++)
                p.v[d] -= mean[d];
            if (p.x[2] >= low && p.x[2] < high)
                particle[total->own++] = p;
        }
    }

    // Moves particles to their slabs, and makes the lists; at the start, also forces.
    void begin_round(bool start) {
        std::vector<Particle> leaving[2];
        turn = 0; // a substitute's would be another
        for (Index i = 0; i < total->own;) {
            Particle &p = particle[i];
            for (Index d = 0; d < 2; d++)
                p.x[d] -= box[d] * std::floor(p.x[d] / box[d]);
            if (p.x[2] >= low && p.x[2] < high) {
                i++;
                continue;
            }
            Index up = p.x[2] >= high;
            p.x[2] += around(up);
            leaving[up].push_back(p);
            p = particle[--total->own];
        }
        for (Index up = 0; up < 2; up++) {
            Index count = std::min(leaving[up].size(), limit);
            shmem_putmem(&inbox[up * limit], leaving[up].data(), count * sizeof(Particle),
                         beside(up));
            shmem_p(&arrived[up], static_cast<long>(count), beside(up));
        }
        shmem_barrier_all();
        for (Index up = 0; up < 2; up++)
            for (Index i = 0; i < static_cast<Index>(arrived[up]) && total->own < limit; i++)
                particle[total->own++] = inbox[up * limit + i];
        for (Index up = 0; up < 2; up++) {
            sent[up].clear();
            for (Index i = 0; i < total->own; i++)
                if (up ? particle[i].x[2] >= high - reach : particle[i].x[2] < low + reach)
                    sent[up].push_back(i);
            sent[up].resize(std::min(sent[up].size(), limit));
            shmem_p(&ghosts[up], static_cast<long>(sent[up].size()), beside(up));
        }
        exchange();
        find_neighbours();
        if (start) {
            compute_forces();
            measure(true);
        }
    }

    // Goes on by one time step.
    void step() {
        for (Index i = 0; i < total->own; i++)
            for (Index d = 0; d < 3; d++) {
                particle[i].v[d] += dt / 2 * particle[i].f[d];
                particle[i].x[d] += dt * particle[i].v[d];
            }
        exchange();
        compute_forces();
        for (Index i = 0; i < total->own; i++)
            for (Index d = 0; d < 3; d++)
                particle[i].v[d] += dt / 2 * particle[i].f[d];
    }

    // Computes forces, and the potential energy of this PE's particles.
    void compute_forces() {
        const double shift = 4 * (std::pow(cutoff, -12) - std::pow(cutoff, -6));
        potential = 0;
        for (Index i = 0; i < total->own; i++) {
            Vector f{};
            for (Index k = first[i]; k < first[i + 1]; k++) {
                Vector apart = distance(at[i], at[neighbour[k]]);
                double square = length(apart);
                if (square >= cutoff * cutoff)
                    continue;
                double six = 1 / (square * square * square);
                potential += (4 * six * (six - 1) - shift) / 2; // half: each pair is met twice
                for (Index d = 0; d < 3; d++)
                    f[d] += 48 * six * (six - 0.5) / square * apart[d];
            }
            particle[i].f = f;
        }
    }

    // Compares the energy with that of the start, and looks for particles that moved too far.
    void measure(bool start) {
        part[0] = potential;
        for (Index i = 0; i < total->own; i++)
            part[0] += length(particle[i].v) / 2;
        shmem_sum_reduce(SHMEM_TEAM_WORLD, sum.data(), part.data(), 1);
        if (start)
            total->start = sum[0];
        total->drift = std::max(total->drift, std::abs(sum[0] / total->start - 1));
        for (Index i = 0; i < total->own && !start; i++)
            total->wrong += length(distance(particle[i].x, listed[i])) > skin * skin / 4;
    }

    // Checks the result, and sums up what it depends on.
    void check() {
        shmem::Array<std::uint64_t> mine(4), all(4);
        Vector momentum{};
        for (Index i = 0; i < total->own; i++) {
            std::uint64_t bits[3];
            std::memcpy(bits, particle[i].x.data(), sizeof bits);
            std::uint64_t number = particle[i].number;
            mine[0] += mix(mix(mix(mix(number + 1) ^ bits[0]) ^ bits[1]) ^ bits[2]);
            mine[1] += number + 1;
            for (Index d = 0; d < 3; d++)
                momentum[d] += particle[i].v[d];
        }
        mine[2] = total->own, mine[3] = total->wrong;
        shmem_sum_reduce(SHMEM_TEAM_WORLD, all.data(), mine.data(), 4);
        total->checksum = all[0];
        total->wrong = all[3] + (all[2] != particles) + !(total->drift < 5e-4);
        total->wrong += all[1] != particles * (particles + 1) / 2;
        for (Index d = 0; d < 3; d++) {
            part[0] = momentum[d];
            shmem_sum_reduce(SHMEM_TEAM_WORLD, sum.data(), part.data(), 1);
            total->wrong += !(std::abs(sum[0]) < 1e-8);
        }
    }

    const Totals &totals() const { return *total; }

private:
    // Returns the PE of the slab above or below.
    int beside(Index up) const { return (me + (up ? 1 : pes - 1)) % pes; }

    // Returns the shift of positions that are sent there, around the box.
    double around(Index up) const {
        return up ? (me == pes - 1 ? -box[2] : 0) : (me == 0 ? box[2] : 0);
    }

    static double length(const Vector &v) { return v[0] * v[0] + v[1] * v[1] + v[2] * v[2]; }

    Vector distance(const Vector &a, const Vector &b) const {
        Vector apart = {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
        for (Index d = 0; d < 2; d++)
            apart[d] -= apart[d] > box[d] / 2 ? box[d] : apart[d] < -box[d] / 2 ? -box[d] : 0;
        return apart;
    }

    // Collects the positions of this PE's particles and, behind them, those of ghosts. Two halves
    // of `ghost` alternate, as the neighbours may still read the other one.
    void exchange() {
        turn ^= 1;
        for (Index up = 0; up < 2; up++) {
            at.clear();
            for (Index i : sent[up]) {
                at.push_back(particle[i].x);
                at.back()[2] += around(up);
            }
            shmem_putmem(&ghost[(2 * turn + up) * limit], at.data(), at.size() * sizeof(Vector),
                         beside(up));
        }
        shmem_barrier_all();
        at.clear();
        for (Index i = 0; i < total->own; i++)
            at.push_back(particle[i].x);
        for (Index up : {Index{1}, Index{0}}) {
            const Vector *from = &ghost[(2 * turn + up) * limit];
            at.insert(at.end(), from, from + ghosts[up]);
        }
    }

    // Lists the particles within reach of each of this PE's, with the help of cells of that size.
    void find_neighbours() {
        const Vector origin = {0, 0, low - reach}, size = {box[0], box[1], high - low + 2 * reach};
        std::array<int, 3> cells;
        for (Index d = 0; d < 3; d++)
            cells[d] = static_cast<int>(size[d] / reach);
        auto cell_of = [&](const Vector &x) {
            std::array<int, 3> cell;
            for (Index d = 0; d < 3; d++) {
                double place = (x[d] - origin[d]) / size[d] * cells[d];
                cell[d] = std::clamp(static_cast<int>(place), 0, cells[d] - 1);
            }
            return cell;
        };
        auto number = [&](int x, int y, int z) {
            return static_cast<Index>((z * cells[1] + y) * cells[0] + x);
        };
        std::vector<std::vector<Index>> in(number(0, 0, cells[2]));
        for (Index i = 0; i < at.size(); i++) {
            std::array<int, 3> cell = cell_of(at[i]);
            in[number(cell[0], cell[1], cell[2])].push_back(i);
        }
        first.assign(1, 0);
        neighbour.clear();
        for (Index i = 0; i < total->own; i++) {
            std::array<int, 3> cell = cell_of(at[i]);
            for (int z = std::max(cell[2] - 1, 0); z <= std::min(cell[2] + 1, cells[2] - 1); z++)
                for (int y = cell[1] + cells[1] - 1; y <= cell[1] + cells[1] + 1; y++)
                    for (int x = cell[0] + cells[0] - 1; x <= cell[0] + cells[0] + 1; x++)
                        for (Index j : in[number(x % cells[0], y % cells[1], z)])
                            if (j != i && length(distance(at[i], at[j])) < reach * reach)
                                neighbour.push_back(j);
            first.push_back(neighbour.size());
        }
        listed.assign(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(total->own));
    }

    // The same in every round.
    const int pes, me;
    const double edge;
    const Index limit; // particles of a slab
    Vector box;
    double low, high; // the slab's faces

    // Held by checkpoints, or written by other PEs.
    shmem::Array<Particle> particle, inbox; // survival
    shmem::Array<Vector> ghost;             // survival
    shmem::Array<long> arrived, ghosts;     // survival
    shmem::Array<double> part, sum;         // survival
    shmem::ft::Protected<Totals> total;     // survival

    // Made anew in every round.
    std::vector<Index> sent[2], first, neighbour;
    std::vector<Vector> at, listed;
    Index turn = 0;
    double potential = 0;
};

} // namespace

int main() {
    shmem::Session session;
    Slab slab(session);
    shmem::ft::run([&](std::uint64_t round) { // survival
        if (round == 0)
            slab.fill();
        slab.begin_round(round == 0);
        for (int i = 0; i < steps_a_round; i++)
            slab.step();
        slab.measure(false);
        if (round + 1 == ROUNDS)
            slab.check();
        return round + 1 == ROUNDS;
    });
    const Totals &total = slab.totals();
    if (session.me() == 0 && total.wrong)
        std::printf("md: FAILED (%llu wrong, drift %.1e)\n",
                    static_cast<unsigned long long>(total.wrong), total.drift);
    else if (session.me() == 0)
        std::printf("md: ok checksum=%016llx\n", static_cast<unsigned long long>(total.checksum));
    return total.wrong != 0;
}
