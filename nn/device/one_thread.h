// Scopes in which the calling thread computes alone.
#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

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

/// From now on the operators that the calling thread calls compute on it alone; those of other
/// threads are as before. Returns how many threads they had.
inline int compute_alone() {
  // LibTorch sets a thread's number in the first call, once by its library and once by its headers.
  at::internal::lazy_init_num_threads();
  const int before = at::get_num_threads();
  omp_set_num_threads(1);
  return before;
}

/// compute_alone() while it lives. Needed in a parallel region: there oneDNN starts no threads, yet
/// it shares out a primitive's work among as many as the thread may start, and leaves out or makes
/// up what the others would have done (compensations of 8-bit weights, convolutions by groups).
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
