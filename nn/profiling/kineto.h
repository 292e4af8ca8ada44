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

  /// Warms up. UserError where this LibTorch has no Kineto; RunError where a daemon may ask for
  /// traces, whose end would end this one; c10::Error where another trace is being made.
  explicit KinetoTrace(Options options);
  /// Ends it; nothing is written.
  ~KinetoTrace();
  KinetoTrace(const KinetoTrace&) = delete;
  KinetoTrace& operator=(const KinetoTrace&) = delete;

  /// distributed_info: a JSON object, which readers of traces know the rank from.
  void start(const std::string& distributed_info);
  /// Ends it and writes it as JSON. Once, after start(). RunError when it cannot be written; then
  /// nothing of it is left.
  void save(const std::filesystem::path& file);

 private:
  const Options options_;
  bool started_ = false, ended_ = false;
};

/// The environment variable that lets Dynolog's daemon ask this process for traces.
inline constexpr const char* daemon_variable = "KINETO_USE_DAEMON";

/// Called while this is the only thread that reads the environment. heeds_daemon: from the first
/// such call with daemon_variable set the daemon may ask; without, the variable is taken out of the
/// environment. Returns whether the daemon may ask.
bool open_kineto(bool gpu, bool heeds_daemon);

/// A training step begins: the daemon counts them, if it may ask.
void tell_daemon_of_step();

}  // namespace composer
