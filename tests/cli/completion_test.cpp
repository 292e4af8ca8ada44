// What completes a command line, and the shells that ask for it.
#include "cli/completion.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "cli/main.h"
#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::completion_test {

namespace {

Words words_after(const Words& line) {
  add_builtin_components();
  Words words;
  for (const auto& candidate : complete(line).candidates) words.push_back(candidate.word);
  return words;
}

std::string doc_of(const Words& line) { return complete(line).candidates.at(0).doc; }

bool is_installed(const std::string& shell) {
  return std::system(("command -v " + shell + " > /dev/null 2>&1").c_str()) == 0;
}

/// The script for `shell`, as a file in `folder`.
std::string script_for(const std::string& shell, const TemporaryFolder& folder) {
  const auto printed = run(folder.path(), {"completion", shell});
  REQUIRE(printed.status == 0);
  folder.write(shell, printed.output);
  return (folder / shell).string();
}

/// What bash makes of a line, the last word of which is being typed.
Words bash_answer(const TemporaryFolder& folder, const std::string& script,
                  const std::string& line) {
  std::ostringstream commands;
  commands << "source " << script << "\nCOMP_WORDS=(" << PROGRAM << ' ' << line
           << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_composer_completion\n"
           << "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
  folder.write("ask", commands.str());
  const auto answer = run(folder.path(), {"ask"}, "/bin/bash");
  INFO(answer.errors);
  REQUIRE(answer.status == 0);
  std::istringstream lines(answer.output);
  Words words;
  for (std::string word; std::getline(lines, word);) words.push_back(word);
  return words;
}

}  // namespace

TEST_CASE("subcommands, their actions and the launcher's options are completed",
          "[cli][completion]") {
  CHECK(words_after({"tra"}) == Words{"trace", "train"});
  CHECK(words_after({"-n", "8", "tra"}) == Words{"trace", "train"});
  CHECK(words_after({"--bind", ""}) == Words{"cores", "none", "numa"});
  CHECK(has(words_after({"--"}), "--max_restarts"));
  CHECK(words_after({"bench", "lo"}) == Words{"loader"});
  CHECK(words_after({"model", ""}) == Words{"info"});
  CHECK(words_after({"checkpoint", "con"}) == Words{"consolidate", "convert"});
  CHECK(doc_of({"doctor"}).starts_with("Says what this machine"));
  for (const auto& name : words_after({""})) {
    INFO(name);
    if (!name.starts_with('-')) CHECK(has(words_after({name, "--"}), "--help"));
  }
}

TEST_CASE("options and the words they take are completed", "[cli][completion]") {
  CHECK(words_after({"train", "--pl"}) == Words{"--plan"});
  CHECK(words_after({"data", "write", "--format", "im"}) == Words{"image_folder", "imagenet"});
  CHECK(words_after({"data", "write", "--output", ""}).empty());
  CHECK(complete({"data", "write", "--output", ""}).files);
  CHECK_FALSE(complete({"data", "write", "--jpeg_quality", ""}).files);
  CHECK(words_after({"bench", "step", "--precision", "amp_"}) == Words{"amp_bf16", "amp_fp16"});
  CHECK(words_after({"predict", "--m"}) == Words{"--max_duration", "--model"});
  CHECK(words_after({"export", "--format", "o"}) == Words{"onnx"});
  CHECK(words_after({"list", "al"}) == Words{"algorithms"});
  CHECK(words_after({"describe", "algorithm", "blur"}) == Words{"blurpool"});
}

TEST_CASE("recipes, their keys and components are completed", "[cli][completion]") {
  CHECK(words_after({"train", "-f", "resnet5"}) ==
        Words{"resnet50", "resnet50d", "resnet56_cifar10"});
  CHECK(complete({"train", "-f", "resnet5"}).files);
  CHECK(words_after({"train", "--algorithms", "blurpool", "label"}) == Words{"label_smoothing"});
  CHECK(words_after({"train", "--precision", "amp_"}) == Words{"amp_bf16", "amp_fp16"});
  CHECK(words_after({"train", "--device=c"}) == Words{"--device=cpu"});
  CHECK(words_after({"train", "--device", "=", "c"}) == Words{"cpu"});
  CHECK(words_after({"train", "--autoresume", ""}) == Words{"false", "true"});
  CHECK(words_after({"train", "--dataloader.on_bad_sample", "s"}) == Words{"skip"});
  CHECK(words_after({"train", "-f", "resnet50", "--algorithms", "progressive_resizing",
                     "--algorithms.progressive_resizing.size"}) ==
        Words{"--algorithms.progressive_resizing.size_increment"});
  CHECK(words_after({"train", "-f", "resnet50", "--algorithms", "progressive_resizing",
                     "--size_"}) == Words{"--size_increment"});
  CHECK(words_after({"train", "-f", "resnet50", "--crop_siz"}).empty());  // of two sets
  // Components whose required parameters are still to come, or that contradict each other.
  CHECK(words_after({"train", "-f", "resnet50", "--optimizer", "sgd", "--optimizer.sgd.mom"}) ==
        Words{"--optimizer.sgd.momentum"});
  CHECK(words_after({"train", "-f", "resnet50", "--optimizer", "sgd", "--optimizer.dec"}).empty());
  CHECK(words_after({"train", "--file=resnet50", "--schedulers=triangular", "--t_pe"}) ==
        Words{"--t_peak"});
  CHECK(words_after({"train", "-f", "resnet50", "--algorithms", "mixup", "cutmix",
                     "--algorithms.mixup.al"}) == Words{"--algorithms.mixup.alpha"});
  CHECK(words_after({"train", "-f", "no_recipe", "--max_dur"}) == Words{"--max_duration"});
  CHECK(words_after({"run_composer_trainer", "-f", "resnet5"}) ==
        words_after({"train", "-f", "resnet5"}));
}

TEST_CASE("bash completes what is typed", "[cli][completion]") {
  const TemporaryFolder folder;
  folder.write("resnet50_mine.yaml", "");
  const auto script = script_for("bash", folder);
  CHECK(bash_answer(folder, script, "train --precision amp_") == Words{"amp_bf16", "amp_fp16"});
  CHECK(bash_answer(folder, script, "-n 2 bench he") == Words{"headspace"});
  CHECK(bash_answer(folder, script, "train -f resnet50") ==
        Words{"resnet50", "resnet50d", "resnet50_mine.yaml"});
  CHECK(has(bash_answer(folder, script, "train --load_path ="), "resnet50_mine.yaml"));
}

TEST_CASE("the scripts for other shells are whole", "[cli][completion]") {
  const TemporaryFolder folder;
  for (const std::string shell : {"zsh", "fish"}) {
    const auto script = script_for(shell, folder);
    if (!is_installed(shell)) {
      WARN("skipped: " << shell << " is not installed");
      continue;
    }
    CHECK(std::system((shell + " -n " + script).c_str()) == 0);
  }
  CHECK(run(folder.path(), {"completion", "csh"}).status == 2);
}

}  // namespace composer::completion_test
