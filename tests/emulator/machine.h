// What compiled kernels ask of the emulated machine. Included by kernels too: no standard header.
#pragma once

namespace emulator {

struct Index {
  unsigned x, y, z;
};

/// The thread that runs. Blocks run one after the other, so there is one set for the process.
struct Place {
  Index thread, block;
};

/// An operand of inline assembly: its constraint, and where its value is.
struct Operand {
  const char* constraint;
  void* value;
  unsigned bytes;
};

struct Program;

/// A kernel of a compiled library.
struct Kernel {
  const void* address;
  void (*run)(void** arguments);
  const unsigned* sizes;  // of its parameters, then a zero
};

/// What a library gives under kKernels: all its kernels, then an empty one.
using Kernels = const Kernel* (*)();
inline constexpr const char* kKernels = "emulator_kernels";

/// What the lanes of a warp that take part brought, null for the others. Fills in what each gets.
using Finish = void (*)(void** lanes);

/// `fragment`: a read of shared memory for products, some of which are not used.
enum class Access { read, fragment, write, atomic };

}  // namespace emulator

#pragma GCC visibility push(default)
extern "C" {
extern emulator::Place emulator_place;
extern emulator::Index emulator_grid, emulator_block;

/// Ends the launch with a message. A printf format.
[[noreturn]] void emulator_fail(const char* format, ...);

/// Waits for the threads of the block. `site` tells barriers apart; the results are of `value` over the block.
struct EmulatorVotes {
  int count, all, any;
};
EmulatorVotes emulator_barrier(const char* site, int value);
/// The first statement of a kernel whose blocks come in clusters.
void emulator_cluster(unsigned blocks);

/// Waits for the lanes of `mask` that have not left, each with the same `name` and mask; one of them runs `finish`.
void emulator_meet(const char* name, unsigned mask, void* mine, emulator::Finish finish, bool orders_memory);

/// Static shared memory of the block, by a key of its declaration; dynamic shared memory.
void* emulator_shared(const void* key, unsigned long bytes);
void* emulator_dynamic_shared();
/// Shared memory as a number of 32 bits, and back.
unsigned emulator_shared_number(const void* address);
void* emulator_shared_address(unsigned number);

/// Checks an access of kernel code that no instrumentation sees.
void emulator_access(const void* address, unsigned long bytes, emulator::Access access);

const emulator::Program* emulator_assemble(const char* text);
void emulator_execute(const emulator::Program* program, const emulator::Operand* operands, int count);

/// Copies that are made at the end of the wait for them. `bytes` of `whole` are copied, the rest are zeros.
void emulator_copy_later(void* to, const void* from, unsigned whole, unsigned bytes);
void emulator_close_copies();
void emulator_wait_copies(unsigned pending);
}
#pragma GCC visibility pop
