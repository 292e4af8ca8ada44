// Files of runs: those that the program writes, and traces of other programs.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "analysis/report.h"
#include "analysis/trace/report_section.h"
#include "analysis/trace/trace_analysis.h"
#include "analysis/trace/trace_diff.h"
#include "analysis/trace/trace_json.h"
#include "base/error.h"
#include "composer/logging/tensorboard.h"
#include "tests/analysis/run_files.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/memory_file.h"
#include "tests/temporary_folder.h"

namespace composer::test {
namespace {

using Bytes = std::span<const uint8_t>;

/// A file that lies in memory, under a path like any other's.
class FuzzedFile {
 public:
  void set(const std::filesystem::path& path, Bytes bytes) {
    memory_.set(bytes);
    if (std::filesystem::is_symlink(path)) return;
    std::filesystem::remove(path);
    std::filesystem::create_symlink(memory_.path(), path);
  }

 private:
  MemoryFile memory_;
};

std::string text(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

void require_text(const std::string& text) {
  if (text.empty()) throw std::logic_error("says nothing");
}

template <class Result>
void require_reports(const Result& result, const Report& report) {
  constexpr auto replaced = nlohmann::ordered_json::error_handler_t::replace;
  require_text(json_of(result).dump(-1, ' ', false, replaced));
  require_text(text_of(report));
  require_text(page_of(report));
}

}  // namespace

bool fuzz_trace(Bytes input) {
  static const TemporaryFolder folder;
  static FuzzedFile file;
  const auto trace = folder / "rank0.json";  // gzip is known by its first bytes
  file.set(trace, input);
  try {
    for (const bool as_hta : {false, true}) {
      const auto analysis = analyze_traces({trace}, {.as_hta = as_hta}, {});
      require_reports(analysis, report_of(analysis));
    }
  } catch (const UserError&) {
    return false;
  }
  try {
    const auto diff = diff_traces(trace, trace, {});
    require_reports(diff, report_of(diff, 0));
  } catch (const UserError&) {  // there may be no step
  }
  return true;
}

bool fuzz_event_file(Bytes input) {
  const auto file = text(input);
  bool any = false;
  for (const auto record : event_records(file)) {
    const auto place = place_of_event(record);
    any = any || place.step != 0 || !place.tags.empty();
  }
  return any;
}

bool fuzz_run(Bytes input) {
  const auto end = std::find(input.begin(), input.end(), '\n');
  if (end == input.end()) return false;
  const auto name = text({input.begin(), end});
  constexpr std::array names{"metrics.jsonl", "summary.json", "about.json", "evaluation.json",
                             "hparams.yaml"};
  if (std::find(names.begin(), names.end(), name) == names.end()) return false;
  static const TemporaryFolder folder;
  static std::map<std::string, FuzzedFile> files;
  const auto path = folder / name;  // of a run that is sound but for this file
  if (!files.contains(name)) RunFiles(folder, name).write_summary(0.5);
  files[name].set(path / name, {end + 1, input.end()});
  try {
    require_text(report_page({read_run(path)}));
  } catch (const UserError&) {
    return false;
  }
  return true;
}

}  // namespace composer::test
