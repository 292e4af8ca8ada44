// A training that is killed again and again, and goes on each time.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "process.h"

namespace composer {

namespace killed {

namespace fs = std::filesystem;

inline std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The folder that a run says it is in; empty before.
inline fs::path run_folder(const fs::path& folder, const std::string& errors) {
  const std::string line = "\nrun: ";
  const auto at = ('\n' + errors).find(line);
  if (at == std::string::npos) return {};
  const auto begin = at + line.size() - 1;
  const auto end = errors.find('\n', begin);
  if (end == std::string::npos) return {};
  return folder / errors.substr(begin, end - begin);
}

/// Batches of the newest whole checkpoint.
inline int64_t batches_saved(const fs::path& run) {
  int64_t newest = 0;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", gone)) {
    const auto name = entry.path().filename().string();
    const auto at = name.rfind("-ba");
    if (name.starts_with("ep") && at != std::string::npos &&
        fs::exists(entry.path() / "manifest.json"))
      newest = std::max<int64_t>(newest, std::atoll(name.c_str() + at + 3));
  }
  return newest;
}

/// The words without these options and their values.
inline std::vector<std::string> without(const std::vector<std::string>& words,
                                        const std::vector<std::string>& options) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < words.size(); ++i)
    if (std::find(options.begin(), options.end(), words[i]) != options.end())
      ++i;
    else
      rest.push_back(words[i]);
  return rest;
}

/// What differs between the weights and states that both runs ended with; empty where nothing does.
inline std::string difference(const fs::path& run, const fs::path& whole) {
  std::string names;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints/latest")) {
    const auto name = entry.path().filename();
    if (name.extension() != ".safetensors") continue;
    const auto other = whole / "checkpoints/latest" / name;
    if (!fs::exists(other) || bytes_of(entry.path()) != bytes_of(other))
      names += " " + name.string();
  }
  return names;
}

}  // namespace killed

/// Kills the training with SIGKILL when a checkpoint shows another `every` batches done, and
/// resumes it, until it ends by itself. Then it is repeated without a kill. What it printed is
/// that of all its processes. Status 99, with the names, where the files of both differ.
inline Outcome run_killed(const std::filesystem::path& folder, std::vector<std::string> words,
                          int64_t every) {
  using namespace killed;
  if (!gives(words, "--save_interval")) words = words + split("--save_interval 1ba");
  auto again = words;
  Outcome all;
  fs::path run;
  int64_t kills = 0;
  for (int64_t next = every;;) {
    const Process process(folder, again);
    std::optional<Outcome> ended;
    for (run.clear(); !(ended = process.poll());) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (run.empty()) run = run_folder(folder, process.errors());
      const auto saved = run.empty() ? 0 : batches_saved(run);
      if (saved < next) continue;
      process.signal(SIGKILL);
      next = (saved / every + 1) * every;
    }
    all.status = ended->status;
    all.output += ended->output, all.errors += ended->errors;
    run = run_folder(folder, ended->errors);
    if (all.status != 128 + SIGKILL) break;
    ++kills;
    again = without(words, {"--run_name", "--autoresume"}) +
            split("--autoresume true --run_name " + run.filename().string());
  }
  if (kills == 0 || all.status != 0) return all;
  const auto whole = Process(folder, without(words, {"--run_name", "--autoresume", "--run_dir"}) +
                                         split("--run_dir unkilled --run_name whole"))
                         .wait();
  const auto names = whole.status == 0 ? difference(run, folder / "unkilled/whole") : " all";
  fs::remove_all(folder / "unkilled");
  if (names.empty()) return all;
  return {99, all.output,
          all.errors + "killed " + std::to_string(kills) +
              " times, the run ends with other bytes than without:" + names + "\n" + whole.errors};
}

}  // namespace composer
