#include "nn/profiling/kineto.h"

#include "base/error.h"

// Defined where LibTorch has Kineto's headers (nn/CMakeLists.txt).
#ifdef USE_KINETO
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/kineto_client_interface.h>
#include <torch/csrc/profiler/kineto_shim.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <set>

#include "base/files/atomic_file.h"
#include "nn/profiling/thread_ranges.h"
#endif

namespace composer {

#ifdef USE_KINETO

namespace {

namespace fs = std::filesystem;
namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

std::set<ActivityType> activities(const KinetoTrace::Options& options) {
  if (options.gpu) return {ActivityType::CPU, ActivityType::CUDA};
  return {ActivityType::CPU};
}

torch::profiler::impl::ProfilerConfig config(const KinetoTrace::Options& options) {
  torch::profiler::impl::ExperimentalConfig more;
  more.profile_all_threads = true;
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO,
                                               options.record_shapes, /*profile_memory=*/false,
                                               /*with_stack=*/false, /*with_flops=*/false,
                                               /*with_modules=*/false, more);
}

/// Kineto logs an error where there is no GPU: silenced.
void keep_quiet_without_gpu(bool gpu) {
  constexpr const char* above_error = "5";
  if (!gpu) ::setenv("KINETO_LOG_LEVEL", above_error, /*overwrite=*/0);
}

/// A path of a folder that has only characters which Kineto does not change.
class PlainName {
 public:
  explicit PlainName(const fs::path& folder)
      : folder_(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_ < 0) throw RunError(cannot_be_written(folder, errno));
  }
  ~PlainName() { ::close(folder_); }
  PlainName(const PlainName&) = delete;
  PlainName& operator=(const PlainName&) = delete;

  fs::path path() const { return "/proc/self/fd/" + std::to_string(folder_); }

 private:
  int folder_;
};

/// Whether a daemon may ask for traces; never reset.
std::atomic<bool> daemon_may_ask;

}  // namespace

bool kineto_available() { return true; }

KinetoTrace::KinetoTrace(Options options) : options_(options) {
  if (daemon_may_ask)
    throw RunError(std::string(daemon_variable) + ": the tracer is reserved for Dynolog's daemon");
  profiler::prepareProfiler(config(options_), activities(options_));
}

void KinetoTrace::start(const std::string& distributed_info) {
  profiler::enableProfiler(
      config(options_), activities(options_),
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  started_ = true;
  profiler::addMetadataJson("distributedInfo", distributed_info);
}

/// Kineto renames a file only once it is complete, and does not report failures.
void KinetoTrace::save(const fs::path& file) {
  ended_ = true;
  leave_ranges_of_trace();
  const auto result = profiler::disableProfiler();
  const PlainName folder(file.parent_path());
  result->save((folder.path() / file.filename()).string());
  auto unfinished = file;
  unfinished += ".tmp";
  std::error_code ignored;
  fs::remove(unfinished, ignored);
  if (!fs::exists(file, ignored))
    throw RunError(file.string() + ": could not be written completely (disk full?)");
}

KinetoTrace::~KinetoTrace() {
  if (ended_) return;
  try {
    if (!started_) start("{}");
    leave_ranges_of_trace();
    profiler::disableProfiler();
  } catch (const c10::Error&) {  // nobody to report to, and nothing to clean up
  }
}

bool open_kineto(bool gpu, bool heeds_daemon) {
  static std::mutex one_at_a_time;
  const std::lock_guard guard(one_at_a_time);
  keep_quiet_without_gpu(gpu);
  if (daemon_may_ask) return true;
  if (!heeds_daemon) ::unsetenv(daemon_variable);
  if (std::getenv(daemon_variable) == nullptr) return false;
  leave_lasting_ranges_out();
  torch::global_kineto_init();
  daemon_may_ask = true;
  return true;
}

void tell_daemon_of_step() {
  if (daemon_may_ask) profiler::profilerStep();
}

#else

bool kineto_available() { return false; }

KinetoTrace::KinetoTrace(Options options) : options_(options) {
  throw UserError("profiler: this LibTorch was built without Kineto, which makes traces");
}

void KinetoTrace::start(const std::string&) { started_ = true; }
void KinetoTrace::save(const std::filesystem::path&) { ended_ = true; }
KinetoTrace::~KinetoTrace() = default;
bool open_kineto(bool, bool) { return false; }
void tell_daemon_of_step() {}

#endif

}  // namespace composer
