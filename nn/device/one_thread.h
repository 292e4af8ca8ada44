// Scopes in which LibTorch's operators use one thread.
#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

namespace composer {

/// LibTorch's operators use one thread while it lives, and the previous number of threads
/// afterwards.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// Operators that the calling thread calls use one thread from now on; those of other threads do
/// not change. Returns the previous number of threads.
inline int compute_alone() {
  // LibTorch sets a thread's number of threads in its first call, once in its library and once in
  // its headers.
  at::internal::lazy_init_num_threads();
  const int before = at::get_num_threads();
  omp_set_num_threads(1);
  return before;
}

/// compute_alone() for a scope. A parallel region needs it: there oneDNN starts no threads, yet it
/// divides a primitive's work by the number of threads that it may start, and so leaves out or
/// makes up the other threads' parts (compensations of 8-bit weights, grouped convolutions).
class OneThreadHere {
 public:
  OneThreadHere() : before_(compute_alone()) {}
  ~OneThreadHere() { omp_set_num_threads(before_); }
  OneThreadHere(const OneThreadHere&) = delete;
  OneThreadHere& operator=(const OneThreadHere&) = delete;

 private:
  int before_;
};

}  // namespace composer
