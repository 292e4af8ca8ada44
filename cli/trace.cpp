// The subcommand trace: analyses the profiler's traces, and requests one of a running training.
#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "analysis/trace/report_section.h"
#include "analysis/trace/trace_analysis.h"
#include "analysis/trace/trace_diff.h"
#include "analysis/trace/trace_json.h"
#include "base/error.h"
#include "base/files/mailbox.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/arguments.h"
#include "cli/output_file.h"
#include "cli/run_folder.h"
#include "composer/callbacks/own_callbacks.h"
#include "composer/recipe/registry.h"

namespace composer {
namespace {

int trace_now_command(const Words& words) {
  CLI::App app(
      "Has a run that is going on trace its next steps, after one to warm up, and prints the "
      "files, "
      "one of\neach rank. Training goes on to the same bytes. The recipe's profiler.record_shapes "
      "and\nprofiler.profile_memory say what is in them.",
      "trace now");
  std::string folder;
  int64_t steps = 5;
  double seconds = 600;
  app.option_defaults()->always_capture_default();
  app.add_option("run", folder, "the run's folder")->required();
  app.add_option("--steps", steps, "how many, from 1 to 1000");
  app.add_option("--wait", seconds, "the most seconds to wait for the files");
  if (!parse(app, words)) return 0;
  if (steps < 1 || steps > 1000) throw UserError("--steps: must be from 1 to 1000");
  if (!(seconds > 0)) throw UserError("--wait: must be above 0 seconds");

  check_run_folder(folder);
  const auto answer = send_request(folder, "trace", {{"steps", std::to_string(steps)}}, seconds);
  if (!answer->done) throw RunError(folder + ": " + answer->text);
  std::cout << answer->text << '\n';
  return 0;
}

std::set<std::string, std::less<>> names_of(const CatalogBase& catalog) {
  const auto names = catalog.names();
  return {names.begin(), names.end()};
}

/// The output options.
struct TraceOutput {
  bool json = false;
  std::optional<PageFile> page;

  void add_to(CLI::App& app) {
    app.add_flag("--json", json, "one JSON object on standard output (docs/traces.md)");
    app.add_option_function<std::string>(
        "--html", [this](const std::string& file) { page.emplace("--html", file); },
        "also writes a page for a browser to this file");
  }

  template <class Result>
  void write(const Result& result, const Report& report) const {
    for (const auto& warning : report.warnings) log::warn(warning);
    if (json)
      std::cout << json_line(json_of(result)) << '\n';
    else
      std::cout << text_of(report, std::clamp<int64_t>(terminal_columns(), 80, 100));
    if (page) page->write(page_of(report));
  }
};

constexpr const char* as_hta_help =
    "as HolisticTraceAnalysis 0.5.0 calculates, to the microsecond, for comparisons with it";

int analyze_command(const Words& words) {
  CLI::App app(
      "Says where the time of traces went: files, or folders with one for each rank (a run's "
      "folder: its\ntraces/), as PyTorch's profiler writes them (.json, .json.gz).",
      "trace analyze");
  std::vector<std::string> paths;
  std::string counters;
  TraceOutput output;
  TraceRules rules;
  double delay_us = static_cast<double>(rules.consecutive_kernel_delay_ns) / 1000;
  app.add_option("paths", paths, "traces, and folders of them")->required();
  output.add_to(app);
  app.add_option(
      "--counters", counters,
      "also writes the traces of devices to this folder, with curves of their queues and "
      "of their copies' bandwidth, for Perfetto");
  app.add_flag("--as_hta", rules.as_hta, as_hta_help);
  app.add_option("--kernel_delay_us", delay_us,
                 "microseconds: shorter gaps between kernels are kernel wait (default 30)");
  app.add_option("--kernels", rules.most_kernels, "kernels that are listed by name (default 10)");
  app.add_option("--queue_capacity", rules.queue_capacity,
                 "launches with which a stream's queue is full (default 1024)");
  if (!parse(app, words)) return 0;
  if (!(delay_us >= 0 && delay_us <= 1e12))
    throw UserError("--kernel_delay_us: must be in [0, 1e12]");
  if (rules.most_kernels < 1) throw UserError("--kernels: must be at least 1");
  if (rules.queue_capacity < 1) throw UserError("--queue_capacity: must be at least 1");
  rules.consecutive_kernel_delay_ns = static_cast<int64_t>(delay_us * 1000);

  RangeNames names{names_of(registry().algorithms), names_of(registry().callbacks)};
  names.callbacks.insert(std::begin(own_callbacks::all), std::end(own_callbacks::all));
  const auto analysis = analyze_traces({paths.begin(), paths.end()}, rules, names, counters);
  for (const auto& file : analysis.counter_traces) log::info(file + ": written");
  if (!counters.empty() && analysis.counter_traces.empty())
    log::warn("--counters: nothing is written, as no trace has a device");
  output.write(analysis, report_of(analysis));
  return 0;
}

const std::map<std::string, DeviceKind> device_kinds{
    {"cpu", DeviceKind::cpu}, {"gpu", DeviceKind::gpu}, {"all", DeviceKind::all}};

int diff_command(const Words& words) {
  CLI::App app(
      "Compares two traces: how often each operator and kernel runs in a step, and how long.",
      "trace diff");
  std::string control, test, device = "all";
  TraceOutput output;
  DiffRequest request;
  bool all = false;
  app.add_option("control", control, "a trace, or a folder of one for each rank")->required();
  app.add_option("test", test, "another one")->required();
  output.add_to(app);
  app.add_option("--control_rank", request.control.rank, "default: the first");
  app.add_option("--test_rank", request.test.rank, "default: the first");
  app.add_option("--control_step", request.control.step,
                 "the number in ProfilerStep#N; default: the first");
  app.add_option("--test_step", request.test.step, "default: the first");
  app.add_option("--device", device, "whose operators and kernels (default: all)")
      ->check(word_of({"cpu", "gpu", "all"}));
  app.add_flag("--short_names", request.short_names,
               "names without arguments; those that are then the same are one");
  app.add_flag("--all", all, "all names, not the 30 whose time changes most");
  app.add_flag("--as_hta", request.as_hta, as_hta_help);
  if (!parse(app, words)) return 0;
  request.device = device_kinds.at(device);

  const auto diff = diff_traces(control, test, request);
  output.write(diff, report_of(diff, all ? 0 : 30));
  return 0;
}

const CommandTable trace_actions{
    {"analyze", analyze_command}, {"diff", diff_command}, {"now", trace_now_command}};

}  // namespace

int trace_command(const Words& words) { return dispatch("trace", trace_actions, words); }

}  // namespace composer
