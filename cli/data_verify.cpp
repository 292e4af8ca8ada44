// The subcommands `data hash` and `data verify`: they decode every sample.
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/in_order.h"
#include "cli/sources.h"
#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/storage/mapped_file.h"
#include "data/beton/decode_whole.h"
#include "data/beton/source.h"
#include "data/datasets/image_folder.h"
#include "data/formats/decode.h"
#include "data/sha256.h"
#include "data/thread_count.h"

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
  if (fs::is_directory(path)) return files_below(path);
  if (!fs::exists(path)) throw UserError(path + ": no such file or folder");
  return {path};
}

std::string size_and_hash(const ImageView& image) {
  Sha256 hash;
  for (int64_t y = 0; y < image.height; ++y)
    hash.update({image.row(y), static_cast<size_t>(image.width * image.channels)});
  return std::to_string(image.width) + ' ' + std::to_string(image.height) + ' ' +
         to_hex(hash.digest());
}

/// Prints a line for each sample, in order; what cannot be decoded goes to the log. Returns how
/// many could not. make_line makes a thread's function from an index to its line.
int64_t print_hashes(int64_t count, int threads,
                     const std::function<std::function<std::string(int64_t)>()>& make_line) {
  int64_t bad = 0;
  in_order(count, threads, [&]() -> SampleWorker {
    return [&bad, line = make_line()](int64_t index) -> SampleReport {
      try {
        return [text = line(index)] { std::cout << text << '\n'; };
      } catch (const std::runtime_error& error) {
        return [&bad, index, reason = std::string(error.what())] {
          ++bad;
          log::error(std::to_string(index) + ": " + reason);
        };
      }
    };
  });
  return bad;
}

int64_t hash_beton(const BetonFile& file, int threads) {
  const auto image = file.find_field(BetonType::image);
  if (!image) throw UserError(file.path().string() + ": has no image field");
  const auto label = file.find_field(BetonType::integer);
  return print_hashes(file.samples(), threads, [&] {
    const auto decoder = std::make_shared<JpegDecoder>();
    return [&, decoder](int64_t row) {
      const BetonImage stored = file.image(row, *image);
      const auto hash = file.mapping().use(
          stored.bytes, [&] { return size_and_hash(decode_whole(stored, Dct::fast, *decoder)); });
      return std::to_string(row) + ' ' + (label ? std::to_string(file.integer(row, *label)) : "-") +
             ' ' + hash;
    };
  });
}

int64_t hash_files(const std::vector<std::string>& files, int threads) {
  return print_hashes(static_cast<int64_t>(files.size()), threads, [&] {
    const auto image = std::make_shared<Image>();
    return [&, image](int64_t index) {
      std::vector<uint8_t> bytes;
      read_file(files[static_cast<size_t>(index)].c_str(), bytes);
      decode_image(bytes, *image);
      return std::to_string(index) + " - " + size_and_hash(image->view());
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
  if (!fs::is_directory(path)) return {image_files(path)};
  Chosen chosen{files_of_training(path)};
  const auto is_other = [](const std::string& file) { return !is_meant_as_image(file); };
  chosen.left_out = static_cast<int64_t>(std::erase_if(chosen.files, is_other));
  if (chosen.files.empty()) throw UserError(path + ": has no image files");
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

  /// Returns the exit status.
  int finish(const std::string& path) const {
    if (json_) {
      const ordered_json all{{"path", path},          {"samples", samples_},
                             {"bad", bad_samples_},   {"with_warnings", warned_samples_},
                             {"left_out", left_out_}, {"bad_samples", bad_},
                             {"warnings", warnings_}};
      std::cout << all.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
    } else {
      std::cout << samples_ << " samples: " << bad_samples_ << " bad, " << warned_samples_
                << " with warnings";
      if (left_out_ > 0) std::cout << "; " << left_out_ << " other files left out: no images";
      std::cout << '\n';
    }
    return bad_samples_ > 0 ? 1 : 0;
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
  int64_t samples_ = 0, bad_samples_ = 0, warned_samples_ = 0, left_out_ = 0;
  ordered_json bad_ = ordered_json::array(), warnings_ = ordered_json::array();
};

void verify_field(const BetonFile& file, int64_t row, size_t field, JpegDecoder& decoder,
                  std::string& warnings) {
  switch (file.fields()[field].type) {
    case BetonType::image: {
      const BetonImage stored = file.image(row, field);
      file.mapping().use(stored.bytes,
                         [&] { return decode_whole(stored, Dct::accurate, decoder, &warnings); });
      break;
    }
    case BetonType::json: {
      const auto text = file.bytes(row, field);
      const bool sound = ordered_json::accept(text.begin(), text.end());
      file.mapping().check(text);
      if (!sound) warnings += "is no JSON\n";
      break;
    }
    case BetonType::bytes:
    case BetonType::array:
    case BetonType::tensor:
      file.mapping().check_unread(file.bytes(row, field));
      break;
    default:
      break;
  }
}

Finding verify_row(const BetonFile& file, int64_t row, JpegDecoder& decoder) {
  Finding finding;
  for (size_t field = 0; field < file.fields().size(); ++field) {
    const std::string name = "field '" + file.fields()[field].name + "': ";
    std::string warnings;
    try {
      verify_field(file, row, field, decoder, warnings);
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
    const auto decoder = std::make_shared<JpegDecoder>();
    return [&, decoder](int64_t row) -> SampleReport {
      return [&findings, row, finding = verify_row(file, row, *decoder)] {
        findings.add(std::to_string(row), finding);
      };
    };
  });
}

Finding verify_file(const std::string& path, Image& image) {
  Finding finding;
  try {
    std::vector<uint8_t> bytes;
    read_file(path.c_str(), bytes);
    decode_image(bytes, image, &finding.warnings);
  } catch (const RunError& error) {
    finding.reason = error.what();
  }
  return finding;
}

void verify_files(const std::vector<std::string>& files, int threads, Findings& findings) {
  in_order(static_cast<int64_t>(files.size()), threads, [&]() -> SampleWorker {
    const auto image = std::make_shared<Image>();
    return [&, image](int64_t index) -> SampleReport {
      const auto& path = files[static_cast<size_t>(index)];
      return [&, finding = verify_file(path, *image)] { findings.add(path, finding); };
    };
  });
}

}  // namespace

int data_hash_command(const Words& words) {
  CLI::App app(
      "One line a sample: index, label (- where there is none), width, height, SHA-256 of the "
      "decoded\nRGB bytes (rows from the top). JPEGs in .beton files are decoded as FFCV does.",
      "data hash");
  std::string path;
  int threads = 0;
  app.add_option("source", path, "a .beton file, an image file or a folder of them")->required();
  add_threads(app, threads);
  if (!parse(app, words)) return 0;

  const int64_t bad = is_beton(path) ? hash_beton(BetonFile(path), thread_count(threads))
                                     : hash_files(image_files(path), thread_count(threads));
  return bad > 0 ? 1 : 0;
}

int data_verify_command(const Words& words) {
  CLI::App app(
      "Decodes everything. Lists each bad sample (pixels missing, a premature end included) with "
      "its\nreason, and the decoder's other complaints as warnings. Of a folder, all files that "
      "are "
      "images by\ntheir names, as in training. Exit status 1 if any is bad.",
      "data verify");
  std::string path;
  int threads = 0;
  bool json = false;
  app.add_option("source", path, "a .beton file, an image file or a folder of them")->required();
  app.add_flag("--json", json, "one JSON object on standard output");
  add_threads(app, threads);
  if (!parse(app, words)) return 0;

  Findings findings(json);
  if (is_beton(path)) {
    verify_beton(BetonFile(path), thread_count(threads), findings);
  } else {
    const Chosen chosen = images_of(path);
    findings.leave_out(chosen.left_out);
    verify_files(chosen.files, thread_count(threads), findings);
  }
  return findings.finish(path);
}

}  // namespace composer
