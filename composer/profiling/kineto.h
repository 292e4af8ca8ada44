// LibTorch's tracer, Kineto: the one place that uses it.
#pragma once

#include <filesystem>
#include <string>

namespace composer {

/// Whether this LibTorch has been built with it.
bool kineto_available();

/// One trace: operators, ranges and GPU work of all threads. At most one at a time in a process,
/// made, started and ended in the same thread.
class KinetoTrace {
 public:
  struct Options {
    bool gpu = false;
    bool record_shapes = false;
  };

  /// Warms up. UserError where this LibTorch has no Kineto; c10::Error where another trace is being
  /// made.
  explicit KinetoTrace(Options options);
  /// Ends it; nothing is written.
  ~KinetoTrace();
  KinetoTrace(const KinetoTrace&) = delete;
  KinetoTrace& operator=(const KinetoTrace&) = delete;

  /// distributed_info: a JSON object, which readers of traces know the rank from.
  void start(const std::string& distributed_info);
  /// Ends it and writes it as JSON. Once, after start().
  void save(const std::filesystem::path& file);

 private:
  const Options options_;
  bool started_ = false, ended_ = false;
};

/// Called while this is the only thread that reads the environment. Where KINETO_USE_DAEMON is set,
/// lets Dynolog's daemon ask this process for traces from the first call on; returns whether it
/// may.
bool open_kineto(bool gpu);

/// A training step begins: daemons count them.
void tell_daemon_of_step();

}  // namespace composer
