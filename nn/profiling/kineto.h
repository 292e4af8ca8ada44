// LibTorch's tracer, Kineto; all uses of it are here.
#pragma once

#include <filesystem>
#include <string>

namespace composer {

/// Whether this LibTorch was built with Kineto.
bool kineto_available();

/// One trace: operators, ranges and GPU work of all threads. At most one per process at a time,
/// used in a single thread.
class KinetoTrace {
 public:
  struct Options {
    bool gpu = false;
    bool record_shapes = false;
  };

  /// Warms up. UserError if this LibTorch has no Kineto; RunError if a daemon may ask for
  /// traces, since the end of its trace would end this one; c10::Error while another trace is made.
  explicit KinetoTrace(Options options);
  /// Ends the trace without writing it.
  ~KinetoTrace();
  KinetoTrace(const KinetoTrace&) = delete;
  KinetoTrace& operator=(const KinetoTrace&) = delete;

  /// distributed_info: a JSON object from which trace viewers read the rank.
  void start(const std::string& distributed_info);
  /// Ends the trace and writes it as JSON. Once, after start(). RunError, without leaving a file,
  /// when it cannot be written.
  void save(const std::filesystem::path& file);

 private:
  const Options options_;
  bool started_ = false, ended_ = false;
};

/// The environment variable that lets Dynolog's daemon ask this process for traces.
inline constexpr const char* daemon_variable = "KINETO_USE_DAEMON";

/// Called while no other thread reads the environment. heeds_daemon: the daemon may ask from the
/// first such call on where daemon_variable is set; otherwise the variable is removed from the
/// environment. Returns whether the daemon may ask.
bool open_kineto(bool gpu, bool heeds_daemon);

/// Called at the beginning of a training step, which the daemon counts if it may ask.
void tell_daemon_of_step();

}  // namespace composer
