// The subcommands `data hash` and `data verify`: they decode every sample.
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/remote_error.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/in_order.h"
#include "cli/sources.h"
#include "data/beton/decode_whole.h"
#include "data/beton/source.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/mds.h"
#include "data/files/digest.h"
#include "data/files/thread_count.h"
#include "data/formats/decode.h"
#include "data/samples/remote_files.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

void add_threads(CLI::App& app, int& threads) {
  app.add_option("--num_workers", threads, "threads; 0 = one for each processor")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

/// The files that a path means which is no .beton file.
std::vector<std::string> image_files(const std::string& path) {
  if (is_remote(path))
    return has_image_name(RemotePath(path).name()) ? std::vector<std::string>{path}
                                                   : remote_files_below(path);
  if (fs::is_directory(path)) return files_below(path);
  if (!fs::exists(path)) throw UserError(path + ": no such file or folder" + slash_hint(path));
  return {path};
}

/// Gives the bytes of files that may be missing.
std::shared_ptr<const Source> source_of(const std::vector<std::string>& files) {
  if (!files.empty() && is_remote(files[0])) return open_remote_files(files, 3);
  return std::make_shared<FileSource>(table_of_files(files), "", 3);
}

std::string size_and_hash(const ImageView& image) {
  Digest hash("sha256");
  for (int64_t y = 0; y < image.height; ++y)
    hash.update({image.row(y), static_cast<size_t>(image.width * image.channels)});
  return std::to_string(image.width) + ' ' + std::to_string(image.height) + ' ' + hash.hex();
}

/// Prints a line for each sample, in order; what cannot be decoded goes to the log, by its name.
/// Returns how many could not. make_line makes a thread's function from an index to its line.
int64_t print_hashes(int64_t count, int threads, const std::function<std::string(int64_t)>& name,
                     const std::function<std::function<std::string(int64_t)>()>& make_line) {
  int64_t bad = 0;
  in_order(count, threads, [&]() -> SampleWorker {
    return [&bad, &name, line = make_line()](int64_t index) -> SampleReport {
      try {
        return [text = line(index)] { std::cout << text << '\n'; };
      } catch (const RemoteError&) {
        throw;
      } catch (const UserError&) {  // a store's
        throw;
      } catch (const std::runtime_error& error) {
        return [&bad, told = name(index) + ": " + error.what()] {
          ++bad;
          log::error(told);
        };
      }
    };
  });
  return bad;
}

int64_t hash_beton(const BetonFile& file, int threads) {
  const auto image = file.find_field(BetonType::image);
  if (!image) throw UserError(file.path().string() + ": has no image field");
  const auto label = label_field(file);
  const auto name = [&](int64_t row) {
    return shown_path(file.path().string()) + ": sample " + std::to_string(row);
  };
  return print_hashes(file.samples(), threads, name, [&] {
    const auto scratch = std::make_shared<ReadScratch>();
    return [&, scratch](int64_t row) {
      BetonImage stored = file.image(row, *image);
      const auto hash = file.use(stored.bytes, scratch->file, [&](auto bytes) {
        stored.bytes = bytes;
        return size_and_hash(decode_whole(stored, Dct::fast, scratch->decoder));
      });
      return std::to_string(row) + ' ' + (label ? std::to_string(file.integer(row, *label)) : "-") +
             ' ' + hash;
    };
  });
}

int64_t hash_files(const std::vector<std::string>& files, int threads) {
  const auto source = source_of(files);
  const auto name = [&](int64_t i) { return shown_path(files[static_cast<size_t>(i)]); };
  return print_hashes(static_cast<int64_t>(files.size()), threads, name, [&] {
    const auto image = std::make_shared<Image>();
    return [&, image](int64_t index) {
      std::vector<uint8_t> bytes;
      source->fetch(index, bytes, {});
      decode_image(bytes, *image);
      return std::to_string(index) + " - " + size_and_hash(image->view());
    };
  });
}

/// All of an image, upright. decoded: where the pixels may lie.
ImageView whole_image(const StoredImage& image, Image& decoded, std::string* warnings = nullptr) {
  if (!image.jpeg)
    return {image.bytes.data(), image.size.height, image.size.width, image.channels,
            image.size.width * image.channels};
  use_image(image, [&] {
    decode_image(image.bytes, decoded, warnings);
    return true;
  });
  return decoded.view();
}

int64_t hash_source(const Source& source, int threads) {
  const auto name = [&](int64_t i) { return source.name(i); };
  return print_hashes(source.size(), threads, name, [&] {
    const auto scratch = std::make_shared<ReadScratch>();
    const auto decoded = std::make_shared<Image>();
    return [&, scratch, decoded](int64_t index) {
      const StoredImage image = source.open(index, *scratch);
      const auto hash =
          use_image(image, [&] { return size_and_hash(whole_image(image, *decoded)); });
      const bool has_label = source.num_values() == 0;
      return std::to_string(index) + ' ' + (has_label ? std::to_string(source.label(index)) : "-") +
             ' ' + hash;
    };
  });
}

struct Finding {
  std::string reason;    ///< why the sample is bad; empty when it is not
  std::string warnings;  ///< one a line
};

/// What a training reads of a path that is no .beton file.
struct Chosen {
  std::vector<std::string> files;
  int64_t left_out = 0;  ///< that are no images by their names
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

/// What is found out about a set, printed at once or kept for JSON.
class Findings {
 public:
  explicit Findings(bool json) : json_(json) {}

  void leave_out(int64_t files) { left_out_ = files; }

  void add(const std::string& sample, const Finding& finding) {
    ++samples_;
    if (!finding.reason.empty()) note(bad_, sample, "", finding.reason);
    bool warned = false;
    std::istringstream lines(finding.warnings);
    for (std::string line; std::getline(lines, line); warned = true)
      note(warnings_, sample, "warning: ", line);
    if (!finding.reason.empty()) ++bad_samples_;
    if (warned) ++warned_samples_;
  }

  /// A file of the set, beside its samples.
  void add_file(const std::string& file, const std::string& reason) {
    ++bad_file_count_;
    note(bad_files_, file, "", reason);
  }

  /// Returns the exit status.
  int finish(const std::string& path) const {
    if (json_) {
      const ordered_json all{{"path", path},          {"samples", samples_},
                             {"bad", bad_samples_},   {"with_warnings", warned_samples_},
                             {"left_out", left_out_}, {"bad_samples", bad_},
                             {"warnings", warnings_}, {"bad_files", bad_files_}};
      std::cout << all.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
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

void verify_field(const BetonFile& file, int64_t row, size_t field, ReadScratch& scratch,
                  std::string& warnings) {
  switch (file.fields()[field].type) {
    case BetonType::image: {
      BetonImage stored = file.image(row, field);
      file.use(stored.bytes, scratch.file, [&](auto bytes) {
        stored.bytes = bytes;
        return decode_whole(stored, Dct::accurate, scratch.decoder, &warnings);
      });
      break;
    }
    case BetonType::json: {
      const bool sound = file.use(file.bytes(row, field), scratch.file, [&](auto text) {
        return ordered_json::accept(text.begin(), text.end());
      });
      if (!sound) warnings += "is no JSON\n";
      break;
    }
    case BetonType::bytes:
    case BetonType::array:
    case BetonType::tensor:
      if (file.remote() == nullptr)
        file.mapping().check_unread(file.bytes(row, field));
      else
        file.read(file.bytes(row, field), scratch.file);
      break;
    default:
      break;
  }
}

Finding verify_row(const BetonFile& file, int64_t row, ReadScratch& scratch) {
  Finding finding;
  for (size_t field = 0; field < file.fields().size(); ++field) {
    const std::string name = "field '" + file.fields()[field].name + "': ";
    std::string warnings;
    try {
      verify_field(file, row, field, scratch, warnings);
    } catch (const RemoteError&) {
      throw;
    } catch (const RunError& error) {
      if (!finding.reason.empty()) finding.reason += "; ";
      finding.reason += name + error.what();
    }
    std::istringstream lines(warnings);
    for (std::string line; std::getline(lines, line);) finding.warnings += name + line + '\n';
  }
  return finding;
}

void verify_beton(const BetonFile& file, int threads, Findings& findings) {
  in_order(file.samples(), threads, [&]() -> SampleWorker {
    const auto scratch = std::make_shared<ReadScratch>();
    return [&, scratch](int64_t row) -> SampleReport {
      return [&findings, row, finding = verify_row(file, row, *scratch)] {
        findings.add(std::to_string(row), finding);
      };
    };
  });
}

/// Whether BetonFile's message, without the path, is about bytes that are missing or wrong, rather
/// than about another kind of file, or one that cannot be opened.
bool tells_damage(const std::string& problem) {
  return std::ranges::any_of(std::array{"cut off", "damaged", "unfinished"},
                             [&](const char* begin) { return problem.starts_with(begin); });
}

/// Of a local file that is cut off or damaged where all of it is described, only that is found out.
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
  verify_beton(*file, threads, findings);
}

Finding verify_file(const Source& files, int64_t index, Image& image) {
  Finding finding;
  try {
    std::vector<uint8_t> bytes;
    files.fetch(index, bytes, {});
    decode_image(bytes, image, &finding.warnings);
  } catch (const RemoteError&) {
    throw;
  } catch (const RunError& error) {
    finding.reason = error.what();
  }
  return finding;
}

void verify_files(const std::vector<std::string>& files, int threads, Findings& findings) {
  const auto source = source_of(files);
  in_order(static_cast<int64_t>(files.size()), threads, [&]() -> SampleWorker {
    const auto image = std::make_shared<Image>();
    return [&, image](int64_t index) -> SampleReport {
      const auto& path = files[static_cast<size_t>(index)];
      return [&, finding = verify_file(*source, index, *image)] {
        findings.add(shown_path(path), finding);
      };
    };
  });
}

Finding verify_sample(const Source& source, int64_t index, ReadScratch& scratch, Image& decoded) {
  Finding finding;
  try {
    const StoredImage image = source.open(index, scratch);
    whole_image(image, decoded, &finding.warnings);
    if (image.mapping != nullptr) image.mapping->check_unread(image.bytes);
  } catch (const RemoteError&) {
    throw;
  } catch (const RunError& error) {
    finding.reason = error.what();
  }
  return finding;
}

void verify_source(const Source& source, int threads, Findings& findings) {
  in_order(source.size(), threads, [&]() -> SampleWorker {
    const auto scratch = std::make_shared<ReadScratch>();
    const auto decoded = std::make_shared<Image>();
    return [&, scratch, decoded](int64_t index) -> SampleReport {
      return [&, index, finding = verify_sample(source, index, *scratch, *decoded)] {
        findings.add(source.name(index), finding);
      };
    };
  });
}

/// All that can be read of it, and what cannot.
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

int data_hash_command(const Words& words) {
  CLI::App app(
      "One line a sample: index, label (- where there is none), width, height, SHA-256 of the "
      "decoded\nRGB bytes (rows from the top). JPEGs in .beton files are decoded as FFCV does.",
      "data hash");
  std::string path;
  int threads = 0;
  app.add_option(
         "source", path,
         "a .beton file, an image file or a folder of them, local or remote, shards, or a list "
         "of images")
      ->required();
  ShardColumns columns;
  add_shard_columns(app, columns);
  add_threads(app, threads);
  if (!parse(app, words)) return 0;

  if (const auto shards = open_shards(path, /*is_train=*/true, columns))
    return hash_source(*shards, thread_count(threads)) > 0 ? 1 : 0;
  if (is_beton(path)) return hash_beton(BetonFile(path), thread_count(threads)) > 0 ? 1 : 0;
  return hash_files(image_files(path), thread_count(threads)) > 0 ? 1 : 0;
}

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
                 "of compressed MDS shards: the folder that they are unpacked to, as in the recipe "
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
  } else if (const auto shards = open_shards(path, /*is_train=*/true, columns)) {
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
