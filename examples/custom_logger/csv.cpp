#include <array>
#include <cstdio>
#include <fstream>
#include <limits>

#include "cli/main.h"
#include "composer/composer.h"

using namespace composer;

/// Writes every logged value as a line "event,epoch,batch,name,value" of a table in the run's
/// folder.
class LongTable final : public LogSink {
 public:
  struct Params {
    std::string file = "values.csv";

    void fields(auto&& f) { f("file", file, "name of the table in the run's folder"); }
    std::string check() const { return file.empty() ? "file: missing" : ""; }
  };

  explicit LongTable(Params params) : params_(std::move(params)) {}

  std::string name() const override { return "long_table"; }

  void open(const RunInfo& info) override {
    if (info.folder.empty()) return;  // --run_dir none
    const auto path = info.folder / params_.file;
    const std::string kept = lines_until(path, info);
    file_.open(path);
    if (!file_) throw RunError(path.string() + ": cannot be written");
    file_.precision(std::numeric_limits<double>::max_digits10);
    file_ << header << kept;
  }

  /// Called some steps late, in order of time, when the values have been copied from the device.
  void write(const Record& record) override {
    if (!file_.is_open()) return;
    for (const auto& [name, value] : record.values)
      file_ << record.event << ',' << record.time.epoch << ',' << record.time.batch << ',' << name
            << ',' << value << '\n';
  }

  void flush() override {
    if (file_.is_open() && !file_.flush())
      throw RunError(params_.file + ": cannot be written (disk full?)");
  }

 private:
  static constexpr const char* header = "event,epoch,batch,name,value\n";

  /// What a resumed run keeps of the table: lines of later batches come again.
  static std::string lines_until(const std::filesystem::path& path, const RunInfo& info) {
    std::ifstream file(path);
    std::string lines;
    for (std::string line; std::getline(file, line);) {
      char event[8] = {}, name[256] = {};
      long epoch = 0, batch = 0;
      if (std::sscanf(line.c_str(), "%7[a-z],%ld,%ld,%255[^,]", event, &epoch, &batch, name) != 4)
        continue;
      const std::array<std::string, 1> names{name};
      if (info.keeps(event, batch, names)) lines += line + '\n';
    }
    return lines;
  }

  Params params_;
  std::ofstream file_;
};

int main(int argc, char** argv) {
  registry().loggers.add<LongTable>("long_table", "a table of all values, a line each");
  return composer::main(argc, argv);
}
