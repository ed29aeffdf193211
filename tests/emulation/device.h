// A GPU for tests: the text of the kernels, compiled by a C++ compiler, runs on the CPU.
//
// A block's threads are fibers that take turns: each runs until it waits for others.  What a barrier or a shuffle waits
// for is checked: a shuffle with a lane that has ended, or a barrier that not all threads come to, is a fault.

#include <csetjmp>
#include <cmath>
#include <cstring>
#include <cstdint>
#include <utility>
#include <vector>

#include <ucontext.h>

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define DYNAMIC_SHARED(name) unsigned char* name = emulator::shared_memory.data()

struct uint3 {
    unsigned x, y, z;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

static uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

struct alignas(16) Sixteen {
    unsigned char bytes[16];
};

struct Barrier {
    int expected = 0, arrived = 0;
    unsigned long long turn = 0;
    void release_if_complete() {
        if (expected && arrived == expected) arrived = 0, turn++;
    }
};

struct Warp {
    Barrier barrier;
    int size = 0;
    double number[32];
    unsigned a[32][4], b[32][2];
    const unsigned short* rows[32];
};

struct Fiber {
    jmp_buf place;
    ucontext_t start;
    uint3 thread;
    int index;
    bool started = false, done = true;
    std::vector<std::pair<void*, Sixteen>> copies;  // that have not arrived
    std::vector<unsigned char> stack = std::vector<unsigned char>(128 * 1024);
};

static std::vector<Fiber*> fibers;  // kept from launch to launch
static std::vector<Warp> warps;
static Barrier block_barrier;
static Fiber* current;
static jmp_buf scheduler;
static const char* fault;
static unsigned long long steps;  // barriers passed and threads ended
static std::vector<unsigned char> shared_memory;
static void (*body)(void*);
static void* body_arguments;

inline void yield() {
    if (!_setjmp(current->place)) _longjmp(scheduler, 1);
}

inline void wait(Barrier& barrier) {
    const unsigned long long turn = barrier.turn;
    barrier.arrived++;
    barrier.release_if_complete();
    steps += barrier.turn != turn;
    while (barrier.turn == turn) yield();
}

inline Warp& my_warp() { return warps[current->index / 32]; }

inline void wait_for_warp() {
    Warp& warp = my_warp();
    if (warp.barrier.expected != warp.size || warp.size != 32) fault = "a warp's operation without all of its 32 lanes";
    wait(warp.barrier);
}

static void run_fiber() {
    for (;;) {  // a block after the other
        body(body_arguments);
        current->done = true;
        steps++;
        for (Barrier* barrier : {&block_barrier, &my_warp().barrier}) {
            barrier->expected--;
            barrier->release_if_complete();
        }
        yield();
    }
}

inline void resume(Fiber* fiber) {
    current = fiber, threadIdx = fiber->thread;
    if (_setjmp(scheduler)) return;
    if (fiber->started) _longjmp(fiber->place, 1);
    fiber->started = true;
    setcontext(&fiber->start);
}

inline void run_block(int threads, bool backwards) {
    warps.assign((threads + 31) / 32, Warp());
    block_barrier = Barrier();
    block_barrier.expected = threads;
    std::memset(shared_memory.data(), 0xff, shared_memory.size());  // NaN wherever nothing was written
    for (int i = 0; i < threads; i++) {
        if (i == (int)fibers.size()) fibers.push_back(new Fiber());
        Fiber* fiber = fibers[i];
        fiber->index = i;
        fiber->thread = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        if (!fiber->done || !fiber->started) {  // new, or left behind by a fault
            getcontext(&fiber->start);
            fiber->start.uc_stack.ss_sp = fiber->stack.data();
            fiber->start.uc_stack.ss_size = fiber->stack.size();
            makecontext(&fiber->start, run_fiber, 0);
            fiber->started = false;
        }
        fiber->done = false;
        warps[i / 32].barrier.expected++, warps[i / 32].size++;
    }
    for (bool alive = true; alive && !fault;) {
        const unsigned long long before = steps;
        alive = false;
        for (int n = 0; n < threads && !fault; n++) {
            Fiber* fiber = fibers[backwards ? threads - 1 - n : n];
            if (!fiber->done) alive = true, resume(fiber);
        }
        if (alive && steps == before) fault = "a barrier that not all threads come to";
    }
}

template <class... A> struct Call {
    void (*kernel)(A...);
    void** arguments;
    template <size_t... I> void with(std::index_sequence<I...>) { kernel(*(A*)arguments[I]...); }
    static void run(void* self) { ((Call*)self)->with(std::index_sequence_for<A...>()); }
};

// Runs a kernel over a grid; returns what went wrong, or null.
template <class... A>
const char* launch(void (*kernel)(A...), const unsigned* grid, const unsigned* block, size_t shared, bool backwards,
                   void** arguments) {
    Call<A...> call = {kernel, arguments};
    body = Call<A...>::run, body_arguments = &call;
    gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block[0], block[1], block[2]};
    shared_memory.resize(shared + 16);
    fault = nullptr;
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0] && !fault; x++) {
                blockIdx = {x, y, z};
                run_block(block[0] * block[1] * block[2], backwards);
            }
    return fault;
}

}  // namespace emulator

inline void __threadfence() {}
inline unsigned atomicAdd(unsigned* place, unsigned x) { return *place += x, *place - x; }
inline void __syncthreads() { emulator::wait(emulator::block_barrier); }
inline void __syncwarp() { emulator::wait_for_warp(); }

// x of another lane of the warp; `from` maps the lane to the other's.
template <class W, class From> inline W emulated_shuffle(W x, From from) {
    emulator::Warp& warp = emulator::my_warp();
    const int lane = emulator::current->index % 32;
    warp.number[lane] = double(x);
    emulator::wait_for_warp();
    const W other = W(warp.number[from(lane)]);
    emulator::wait_for_warp();
    return other;
}
template <class W> inline W __shfl_xor_sync(unsigned, W x, int mask, int = 32) {
    return emulated_shuffle(x, [mask](int lane) { return lane ^ mask; });
}
template <class W> inline W __shfl_up_sync(unsigned, W x, unsigned by, int = 32) {
    return emulated_shuffle(x, [by](int lane) { return lane < int(by) ? lane : lane - int(by); });
}

template <class W> inline W __shfl_sync(unsigned, W x, int from, int = 32) {
    return emulated_shuffle(x, [from](int) { return from; });
}
inline unsigned __ballot_sync(unsigned, bool bit) {
    emulator::Warp& warp = emulator::my_warp();
    warp.number[emulator::current->index % 32] = bit;
    emulator::wait_for_warp();
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++) bits |= unsigned(warp.number[lane]) << lane;
    emulator::wait_for_warp();
    return bits;
}

// cp.async: 16 bytes, the last of which may be zeros, arrive when the thread waits for them.
inline void emulated_copy(void* to, const void* from, int bytes) {
    emulator::Sixteen copied = {};
    if ((size_t)to % 16 || (size_t)from % 16) emulator::fault = "cp.async that is not at a multiple of 16 bytes";
    else std::memcpy(&copied, from, bytes);
    emulator::current->copies.push_back({to, copied});
}
inline void emulated_wait() {
    for (const auto& copy : emulator::current->copies) std::memcpy(copy.first, &copy.second, 16);
    emulator::current->copies.clear();
}

// ldmatrix.x4: each lane has the address of a row of one of four 8 × 8 matrices, and gets two elements of each.
inline void emulated_ldmatrix(unsigned (&x)[4], const void* from, bool transposed) {
    emulator::Warp& warp = emulator::my_warp();
    const int lane = emulator::current->index % 32, row = lane / 4, column = lane % 4 * 2;
    if ((size_t)from % 16) emulator::fault = "ldmatrix of a row that is not at a multiple of 16 bytes";
    warp.rows[lane] = (const unsigned short*)from;
    emulator::wait_for_warp();
    for (int m = 0; m < 4; m++) {
        const unsigned short* const* rows = warp.rows + 8 * m;
        const unsigned short low = transposed ? rows[column][row] : rows[row][column];
        const unsigned short high = transposed ? rows[column + 1][row] : rows[row][column + 1];
        x[m] = low | unsigned(high) << 16;
    }
    emulator::wait_for_warp();
}

// mma.sync.m16n8k16 for bf16: each lane holds parts of a [16 × 16], b [16 × 8] and d [16 × 8].
inline void emulated_mma(float* d, const unsigned* a, const unsigned (&&b)[2]) {
    emulator::Warp& warp = emulator::my_warp();
    const int lane = emulator::current->index % 32;
    std::memcpy(warp.a[lane], a, sizeof warp.a[lane]);
    std::memcpy(warp.b[lane], b, sizeof b);
    emulator::wait_for_warp();
    const auto number = [](unsigned word, int half) {
        const unsigned bits = (half ? word >> 16 : word & 0xffff) << 16;
        float x;
        std::memcpy(&x, &bits, 4);
        return x;
    };
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; k++)
            d[i] += number(warp.a[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2) *
                    number(warp.b[column * 4 + k % 8 / 2][k / 8], k % 2);
    }
    emulator::wait_for_warp();
}

inline unsigned __float_as_uint(float x) {
    unsigned bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}

inline float __uint_as_float(unsigned bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
