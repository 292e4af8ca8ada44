// The subcommand data verify: decodes every sample.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/in_order.h"
#include "cli/sources.h"
#include "data/beton/source.h"
#include "data/beton/verify.h"
#include "data/datasets/mds.h"
#include "data/files/thread_count.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// The files that a training reads at a path that is no .beton file.
struct Chosen {
  std::vector<std::string> files;
  int64_t left_out = 0;  ///< files left out because their names are not those of images
};

Chosen images_of(const std::string& path) {
  const bool is_one =
      is_remote(path) ? has_image_name(RemotePath(path).name()) : !fs::is_directory(path);
  if (is_one) return {image_files(path)};
  Chosen chosen{is_remote(path) ? image_files(path) : files_of_training(path)};
  const auto is_other = [](const std::string& file) {
    return !is_meant_as_image(file_name_of(file));
  };
  chosen.left_out = static_cast<int64_t>(std::erase_if(chosen.files, is_other));
  if (chosen.files.empty()) throw UserError(shown_path(path) + ": has no image files");
  return chosen;
}

/// The findings about a set, printed at once or collected for JSON.
class Findings {
 public:
  explicit Findings(bool json) : json_(json) {}

  void leave_out(int64_t files) { left_out_ = files; }

  void add(const std::string& sample, const SampleFinding& finding) {
    ++samples_;
    if (!finding.reason.empty()) note(bad_, sample, "", finding.reason);
    bool warned = false;
    std::istringstream lines(finding.warnings);
    for (std::string line; std::getline(lines, line); warned = true)
      note(warnings_, sample, "warning: ", line);
    if (!finding.reason.empty()) ++bad_samples_;
    if (warned) ++warned_samples_;
  }

  /// Adds a damaged file of the set.
  void add_file(const std::string& file, const std::string& reason) {
    ++bad_file_count_;
    note(bad_files_, file, "", reason);
  }

  /// Prints the summary or the JSON. Returns the exit status.
  int finish(const std::string& path) const {
    if (json_) {
      const ordered_json all{{"path", path},          {"samples", samples_},
                             {"bad", bad_samples_},   {"with_warnings", warned_samples_},
                             {"left_out", left_out_}, {"bad_samples", bad_},
                             {"warnings", warnings_}, {"bad_files", bad_files_}};
      std::cout << json_line(all) << '\n';
    } else {
      std::cout << quantity(samples_, "sample") << ": " << bad_samples_ << " bad, "
                << warned_samples_ << " with warnings";
      if (left_out_ > 0)
        std::cout << "; " << quantity(left_out_, "other file") << " left out: no images";
      if (bad_file_count_ > 0) std::cout << "; " << quantity(bad_file_count_, "damaged file");
      std::cout << '\n';
    }
    return bad_samples_ + bad_file_count_ > 0 ? 1 : 0;
  }

 private:
  void note(ordered_json& list, const std::string& sample, const char* kind,
            const std::string& text) {
    if (json_)
      list.push_back({{"sample", sample}, {"reason", text}});
    else
      std::cout << sample << ": " << kind << text << '\n';
  }

  bool json_;
  int64_t samples_ = 0, bad_samples_ = 0, warned_samples_ = 0, left_out_ = 0, bad_file_count_ = 0;
  ordered_json bad_ = ordered_json::array(), warnings_ = ordered_json::array(),
               bad_files_ = ordered_json::array();
};

/// Adds the finding about each sample. make_verify: makes the function of a thread from an index to
/// a SampleFinding.
template <class Name, class MakeVerify>
void verify_each(int64_t count, int threads, Findings& findings, const Name& name,
                 const MakeVerify& make_verify) {
  in_order(count, threads, [&]() -> SampleWorker {
    return [&, verify = make_verify()](int64_t index) -> SampleReport {
      return [&, index, finding = verify(index)] { findings.add(name(index), finding); };
    };
  });
}

/// Whether a message of BetonFile, without the path, tells of missing or wrong bytes, rather than
/// of another kind of file or one that cannot be opened.
bool tells_damage(const std::string& problem) {
  return std::ranges::any_of(std::array{"cut off", "damaged", "unfinished"},
                             [&](const char* begin) { return problem.starts_with(begin); });
}

/// Verifies all rows. A local file with a truncated or damaged header is reported as one damaged
/// file.
void verify_beton(const std::string& path, int threads, Findings& findings) {
  std::unique_ptr<const BetonFile> file;
  try {
    file = std::make_unique<const BetonFile>(path);
  } catch (const UserError& error) {
    const std::string problem = error.what(), begin = path + ": ";
    if (is_remote(path) || !problem.starts_with(begin)) throw;
    if (!tells_damage(problem.substr(begin.size()))) throw;
    return findings.add_file(path, problem.substr(begin.size()));
  }
  const auto name = [](int64_t row) { return std::to_string(row); };
  verify_each(file->samples(), threads, findings, name, [&] {
    return [&, scratch = std::make_shared<ReadScratch>()](int64_t row) {
      return verify_row(*file, row, *scratch);
    };
  });
}

void verify_files(const std::vector<std::string>& files, int threads, Findings& findings) {
  const auto source = open_files(files);
  const auto name = [&](int64_t i) { return shown_path(files[static_cast<size_t>(i)]); };
  verify_each(std::ssize(files), threads, findings, name, [&] {
    return [&, image = std::make_shared<Image>()](int64_t i) {
      return verify_file(*source, i, *image);
    };
  });
}

void verify_source(const Source& source, int threads, Findings& findings) {
  const auto name = [&](int64_t i) { return source.name(i); };
  verify_each(source.size(), threads, findings, name, [&] {
    return [&, scratch = std::make_shared<ReadScratch>(), image = std::make_shared<Image>()](
               int64_t i) { return verify_sample(source, i, *scratch, *image); };
  });
}

/// Verifies all readable samples, and reports the files that are missing or damaged.
void verify_mds(const MdsParams& mds, int threads, Findings& findings) {
  WrongFiles wrong;
  std::shared_ptr<Source> source;
  try {
    source = mds.open("").source;
  } catch (const UserError&) {
    source = mds.open_readable(wrong);
  }
  if (source) verify_source(*source, threads, findings);
  for (const auto& [file, reason] : wrong) findings.add_file(file, reason);
  for (const auto& [file, reason] : mds.wrong_hashes())
    if (std::ranges::find(wrong, file, &WrongFiles::value_type::first) == wrong.end())
      findings.add_file(file, reason);
}

}  // namespace

int data_verify_command(const Words& words) {
  CLI::App app(
      "Decodes everything. Lists each bad sample (pixels missing, a premature end included) with "
      "its\nreason, and the decoder's other complaints as warnings. Of a folder, all files that "
      "are "
      "images by\ntheir names, as in training; of MDS shards, also those that are missing, and the "
      "hashes that their\nindex has. Exit status 1 if any is bad.",
      "data verify");
  std::string path;
  int threads = 0;
  bool json = false;
  app.add_option(
         "source", path,
         "a .beton file, an image file or a folder of them, local or remote, shards, or a list "
         "of images")
      ->required();
  app.add_flag("--json", json, "one JSON object on standard output");
  ShardColumns columns;
  add_shard_columns(app, columns);
  std::string local_dir;
  app.add_option("--local_dir", local_dir,
                 "the folder that compressed MDS shards are unpacked to, as in the recipe "
                 "(default: the\nuser's cache)");
  add_threads(app, threads);
  if (!parse(app, words)) return 0;

  if (!local_dir.empty() && is_remote(path))
    throw UserError("--local_dir: '" + shown_path(path) +
                    "' lies in a store, whose shards are unpacked into the machine's cache: leave "
                    "the option out");
  Findings findings(json);
  auto mds = mds_at(path, /*is_train=*/true, columns);
  if (!mds && !local_dir.empty())
    throw UserError("--local_dir: '" + shown_path(path) + "' is no folder of MDS shards");
  if (mds) {
    mds->local_dir = local_dir;
    verify_mds(*mds, thread_count(threads), findings);
  } else if (const auto shards = open_shards(path, /*is_train=*/true, columns).source) {
    verify_source(*shards, thread_count(threads), findings);
  } else if (is_beton(path)) {
    verify_beton(path, thread_count(threads), findings);
  } else {
    const Chosen chosen = images_of(path);
    findings.leave_out(chosen.left_out);
    verify_files(chosen.files, thread_count(threads), findings);
  }
  return findings.finish(shown_path(path));
}

}  // namespace composer
