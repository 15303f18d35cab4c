// A function's elementwise calls, written down instead of run: while a thread has a trace, what would map over arrays
// becomes a node of it. Each node has what would have run, so that a program of the nodes gives the same bits.
#pragma once

#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpukit/ops/common/map_cpu.h"
#include "gpukit/ops/common/map_layout.cuh"
#include "gpukit/runtime/tracing.h"

namespace gpukit {

/// One map. Values are numbered in the order in which they come to be: an argument's, then a node's each.
struct TraceNode {
  int value = 0;  // what it makes
  int num_inputs = 0;
  int inputs[3] = {};  // values; kScalar: the scalar of the place
  // On a GPU: a type with A, B, C, Out and apply(a, ..., args), and the file it is in.
  std::string functor, source;
  MapArgs args = {};
  bool reads_args = false;
  // On the CPU.
  cpu::RowFunction row = nullptr;
  ElementBytes scalars[3];

  static constexpr int kScalar = -1;
};

struct TraceValue {
  DType dtype;
  Dims shape;
  int node = -1;  // none: an argument
};

class Trace : public runtime::Tracing {
 public:
  Trace(std::string name, Device device) : device_(device) { function = std::move(name); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  Device device() const { return device_; }
  const std::vector<TraceValue>& values() const { return values_; }
  const std::vector<TraceNode>& nodes() const { return nodes_; }

  /// An array that stands for an argument of the function. It has no memory.
  Array argument(const Dims& shape, DType dtype, Device device);
  /// The same for a result of `op` that no node has made yet.
  Array make(const char* op, const Dims& shape, DType dtype, Device device);
  /// The value an array stands for. Throws Error when it stands for none, is a view of one, or nothing made it.
  int value_of(const Array& array) const;
  /// Throws Error when `out` stands for an argument, or is part of a value.
  void add(const Array& out, std::initializer_list<const Array*> inputs, const std::string& functor,
           const std::string& source, const MapArgs& args, bool reads_args);
  void add(const Array& out, std::initializer_list<ElementInput> inputs, cpu::RowFunction row);

 private:
  /// The node is complete but for what it makes.
  void push(const Array& out, TraceNode&& node);
  int input(const Array* array) const { return array == nullptr ? TraceNode::kScalar : value_of(*array); }
  [[noreturn]] void refuse(const std::string& why) const;

  Device device_;
  std::vector<TraceValue> values_;
  std::vector<TraceNode> nodes_;
  struct Held {
    std::shared_ptr<memory::Storage> storage;  // kept, so that no other has its address
    DType dtype;
    Dims shape;
    int value = -1;  // the last that was written there; none: nothing was
    bool is_argument = false;
  };
  std::unordered_map<const memory::Storage*, Held> held_;
};

/// The trace of this thread, or null.
inline Trace* current_trace() { return static_cast<Trace*>(runtime::tracing()); }

/// The type `F` in a kernel's name `gpukit::map2<F>`.
std::string functor_of(const std::string& kernel);

}  // namespace gpukit
