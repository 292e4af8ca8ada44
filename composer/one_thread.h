// A scope in which the calling thread computes alone.
#pragma once

#include <ATen/Parallel.h>

namespace composer {

/// LibTorch's operators use one compute thread while this lives, and as many as before afterwards.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace composer
