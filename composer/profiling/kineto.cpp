#include "composer/profiling/kineto.h"

#include "composer/error.h"
#include "composer/profiling/thread_range.h"

// Defined where LibTorch has Kineto's headers (composer/CMakeLists.txt).
#ifdef USE_KINETO
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/kineto_client_interface.h>
#include <torch/csrc/profiler/kineto_shim.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <unordered_set>
#endif

namespace composer {

#ifdef USE_KINETO

namespace {

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

/// Kineto calls it an error that there is no GPU; without one it has nothing to say.
void keep_quiet_without_gpu(bool gpu) {
  constexpr const char* above_error = "5";
  if (!gpu) ::setenv("KINETO_LOG_LEVEL", above_error, /*overwrite=*/0);
}

}  // namespace

bool kineto_available() { return true; }

KinetoTrace::KinetoTrace(Options options) : options_(options) {
  profiler::prepareProfiler(config(options_), activities(options_));
}

void KinetoTrace::start(const std::string& distributed_info) {
  profiler::enableProfiler(
      config(options_), activities(options_),
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  started_ = true;
  profiler::addMetadataJson("distributedInfo", distributed_info);
}

void KinetoTrace::save(const std::filesystem::path& file) {
  ended_ = true;
  leave_ranges_of_trace();
  profiler::disableProfiler()->save(file.string());
}

KinetoTrace::~KinetoTrace() {
  if (ended_) return;
  try {
    if (!started_) start("{}");
    leave_ranges_of_trace();
    profiler::disableProfiler();
  } catch (const c10::Error&) {  // there is nobody to tell, and nothing to be done
  }
}

bool open_kineto(bool gpu) {
  keep_quiet_without_gpu(gpu);
  static const bool may = [] {
    if (std::getenv("KINETO_USE_DAEMON") == nullptr) return false;
    torch::global_kineto_init();
    return true;
  }();
  return may;
}

void tell_daemon_of_step() { profiler::profilerStep(); }

#else

bool kineto_available() { return false; }

KinetoTrace::KinetoTrace(Options options) : options_(options) {
  throw UserError("profiler: this LibTorch was built without Kineto, which makes traces");
}

void KinetoTrace::start(const std::string&) { started_ = true; }
void KinetoTrace::save(const std::filesystem::path&) { ended_ = true; }
KinetoTrace::~KinetoTrace() = default;
bool open_kineto(bool) { return false; }
void tell_daemon_of_step() {}

#endif

}  // namespace composer
