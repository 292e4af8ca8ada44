// The pictures of a run, in its folder.
#pragma once

#include <filesystem>
#include <string>

#include "composer/logging/logger.h"

namespace composer {

/// images/<name>-ba<batch>-<number>.png, and images/index.json: {"images": [{"file", "name",
/// "epoch", "batch", "caption"}]}, files as seen from the run's folder. When a run resumes, what is
/// of later batches is forgotten. What cannot be written is left out with a warning.
class ImageFolder : public LogSink {
 public:
  std::string name() const override { return "images"; }
  void open(const RunInfo& info) override;
  void write(const Record&) override {}
  void write_images(const ImageRecord& record) override;

 private:
  void put(const ImageRecord& record);

  std::filesystem::path folder_;  ///< the run's
  std::string index_;             ///< JSON of the images so far: a list
};

}  // namespace composer
