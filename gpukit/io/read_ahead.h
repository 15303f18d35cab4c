// Tensors of a file that a thread reads ahead of who asks for them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gpukit/io/safetensors.h"
#include "gpukit/runtime/session.h"

namespace gpukit::io {

/// Reads beside the work that is done with what was read before, many tensors at once. load() is called by one thread.
class ReadAhead {
 public:
  struct Options {
    int64_t batch_bytes = int64_t{64} << 20;            // read together
    int64_t ahead_bytes = int64_t{256} << 20;           // read and not asked for yet
    std::function<std::shared_ptr<void>()> enter = {};  // what the thread keeps while it reads
  };
  /// `order`: what will be asked for, about in this order; another order costs time only. The memory is charged to the
  /// current session. Throws Error when no thread can be started.
  ReadAhead(const TensorFile& file, std::vector<std::string> order, Device device)
      : ReadAhead(file, std::move(order), device, Options()) {}
  ReadAhead(const TensorFile& file, std::vector<std::string> order, Device device, Options options);
  /// Ends the thread; what was not asked for is given up.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// As TensorFile::load does it, once for each tensor. Lets signals through.
  Array load(const std::string& name, std::optional<DType> cast = std::nullopt);

 private:
  void read();
  std::vector<std::string> next_batch(std::unique_lock<std::mutex>& lock);

  const TensorFile file_;
  const Device device_;
  const Options options_;
  const runtime::Session session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> order_;  // not begun
  std::set<std::string> reading_;  // the batch under way
  std::map<std::string, Array> ready_;
  int64_t ready_bytes_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace gpukit::io
