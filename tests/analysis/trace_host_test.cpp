#include <catch2/catch.hpp>
#include <ctime>
#include <nlohmann/json.hpp>

#include "analysis/trace/report_section.h"
#include "analysis/trace/trace_analysis.h"
#include "analysis/trace/trace_json.h"
#include "analysis/trace/trace_reader.h"
#include "base/text.h"
#include "tests/analysis/traces.h"

namespace composer::trace_host_test {
namespace {

const RangeNames names{{"mixup", "sam"}, {"speed_monitor"}};

/// Two steps as the loop's ranges lie in them, of 100 us each, 4 of them in no range.
TraceText two_steps() {
  TraceText text;
  for (int step = 0; step < 2; ++step) {
    const auto at = [&](double offset) { return std::to_string(100 * step + offset); };
    text.step(step, at(0), "100")
        .range("dataloader", at(0), "20")
        .range("wait", at(1), "15")
        .range("after_dataloader", at(20), "6")
        .range("mixup", at(21), "5")
        .range("forward", at(26), "20")
        .range("backward", at(46), "30")
        .range("gradient sum", at(60), "10")
        .range("optimizer", at(76), "10")
        .range("batch_end", at(86), "4")
        .range("speed_monitor", at(87), "3")
        .range("checkpoint", at(90), "6")
        .range("barrier", at(91), "2")
        .range("forward", at(93), "1");
  }
  return text;
}

RankAnalysis analyzed(const TraceText& text) {
  const TraceFolder folder;
  return analyze(read_trace(folder.write("t.json", text.of_rank(0))), {}, names);
}

TEST_CASE("a step's time is its ranges'", "[trace]") {
  const auto steps = analyzed(two_steps()).steps;
  REQUIRE(steps.steps.size() == 2);
  const auto& parts = steps.steps[1].parts;
  CHECK(steps.steps[1].total_ns == 100000);
  CHECK(parts.at({StepPart::data_wait, ""}) == 20000);
  CHECK(parts.at({StepPart::algorithm, "mixup"}) == 5000);
  CHECK(parts.at({StepPart::other_range, "events"}) == 2000);
  CHECK(parts.at({StepPart::forward, ""}) == 20000);
  CHECK(parts.at({StepPart::backward, ""}) == 20000);
  CHECK(parts.at({StepPart::sync, ""}) == 12000);
  CHECK(parts.at({StepPart::optimizer, ""}) == 10000);
  CHECK(parts.at({StepPart::callback, "speed_monitor"}) == 3000);
  CHECK(parts.at({StepPart::checkpoint, ""}) == 4000);
  CHECK(parts.at({StepPart::rest, ""}) == 4000);
  CHECK(steps.coverage() == Approx(0.96));
  CHECK(steps.share(StepPart::sync) == Approx(0.12));
}

TEST_CASE("the ranges of PyTorch's own modules are known, others by their name", "[trace]") {
  const auto steps = analyzed(TraceText()
                                  .step(1, "0", "100")
                                  .range("enumerate(DataLoader)#_Iter.__next__", "0", "10")
                                  .range("augmentation", "10", "20")
                                  .range("Optimizer.step#SGD.step", "50", "10"))
                         .steps;
  CHECK(steps.of(StepPart::data_wait) == 10000);
  CHECK(steps.of(StepPart::optimizer) == 10000);
  CHECK(steps.sum.parts.at({StepPart::other_range, "augmentation"}) == 20000);
}

TEST_CASE("an algorithm's time is all that it does, but for communication", "[trace]") {
  const auto steps = analyzed(TraceText()
                                  .step(1, "0", "100")
                                  .range("after_backward", "0", "50")
                                  .range("sam", "0", "50")
                                  .range("forward", "10", "20")
                                  .range("sum over ranks", "35", "5"))
                         .steps;
  CHECK(steps.sum.parts.at({StepPart::algorithm, "sam"}) == 45000);
  CHECK(steps.of(StepPart::forward) == 0);
  CHECK(steps.of(StepPart::sync) == 5000);
}

TEST_CASE("operators by self time, name and shapes", "[trace]") {
  const auto text = TraceText()
                        .step(1, "0", "100")
                        .operation("aten::conv2d", "10", "50", "[[8, 3]]")
                        .operation("aten::mkldnn_convolution", "15", "40", "[[8, 3]]")
                        .operation("aten::empty", "20", "5")
                        .operation("aten::conv2d", "70", "10", "[[8, 64]]")
                        .operation("aten::relu", "30", "30", "", 2)
                        .operation("aten::late", "200", "30");
  const auto operators = analyzed(text).operators;
  CHECK(operators.self_ns == 90000);
  REQUIRE(operators.by_name.size() == 4);
  CHECK(operators.by_name[0].name == "aten::mkldnn_convolution");
  CHECK(operators.by_name[0].self_ns == 35000);
  CHECK(operators.by_name[0].total_ns == 40000);
  CHECK(operators.by_name[2].name == "aten::conv2d");
  CHECK(operators.by_name[2].calls == 2);
  CHECK(operators.by_name[2].self_ns == 20000);
  CHECK(operators.by_shapes.size() == 5);
  CHECK(operators.by_shapes[2].shapes == "[[8, 3]]");
  CHECK(operators.convolutions_ns == 55000);
  CHECK(operators.pointwise_ns == 30000);
  CHECK(operators.copies_ns == 0);
  CHECK(operators.calls == 5);
}

TEST_CASE("an operator that only overlaps another takes what both have", "[trace]") {
  auto text = TraceText().step(1, "0", "2000");
  text.operation("aten::parent", "0", "10").operation("aten::child", "5", "995");
  const TraceFolder folder;
  const auto analysis = analyze_traces({folder.write("rank0.json", text.of_rank(0))}, {}, names);
  const auto& operators = analysis.ranks[0].operators;
  CHECK(operators.self_ns == 1000000);
  CHECK(operators.by_name[1].self_ns == 5000);
  CHECK(operators.by_name[1].total_ns == 10000);
}

TEST_CASE("a bar is no longer than its column", "[trace]") {
  TraceAnalysis analysis;
  auto& operators = analysis.ranks.emplace_back().operators;
  operators.self_ns = 10;
  operators.by_shapes = {{"a", "", 1, 995, 995}, {"b", "", 1, -985, 10}};
  for (const auto& section : report_of(analysis).sections)
    for (const double bar : section.bars) CHECK((bar >= 0 && bar <= 1));
}

TEST_CASE("of many operators the costliest are kept, and all are counted", "[trace]") {
  auto text = TraceText().step(1, "0", "100000");
  for (int i = 1; i <= 200; ++i)
    text.operation("aten::copy_" + std::to_string(i), std::to_string(300 * i), std::to_string(i));
  const auto operators = analyzed(text).operators;
  REQUIRE(operators.by_name.size() == OperatorCosts::most_rows);
  REQUIRE(operators.by_shapes.size() == OperatorCosts::most_rows);
  CHECK(operators.by_name[0].name == "aten::copy_200");
  CHECK(operators.by_name[49].self_ns == 151000);
  CHECK(operators.calls == 200);
  CHECK(operators.self_ns == 200 * 201 / 2 * 1000);
  CHECK(operators.copies_ns == operators.self_ns);
}

TEST_CASE("a thread is idle where it has no event", "[trace]") {
  const auto threads = analyzed(TraceText()
                                    .step(1, "0", "100")
                                    .operation("a", "0", "60")
                                    .operation("b", "10", "20")
                                    .operation("c", "90", "20", "", 2)
                                    .operation("d", "300", "20", "", 3))
                           .threads;
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].thread == "thread 1");
  CHECK(threads[0].busy_ns == 60000);
  CHECK(threads[0].idle_share == Approx(0.4));
  CHECK(threads[1].busy_ns == 10000);
}

std::vector<Advice> advice_of(const TraceText& text) {
  const TraceFolder folder;
  return analyze_traces({folder.write("rank0.json", text.of_rank(0))}, {}, names).advice;
}

TEST_CASE("what would help most is said first, with what it can save", "[trace]") {
  const auto waits = advice_of(
      TraceText().step(1, "0", "100").range("dataloader", "0", "60").range("forward", "60", "40"));
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].gain == Approx(0.6));
  CHECK_THAT(waits[0].text, Catch::Contains("waits 60 % of its time for data"));

  const auto several = advice_of(two_steps());
  REQUIRE(several.size() == 3);
  CHECK(several[0].gain == Approx(0.2));
  CHECK(several[1].gain == Approx(0.12));
  CHECK_THAT(several[2].text,
             Catch::Contains("mixup takes 5.0 %") || Catch::Contains("optimizer takes 10 %"));

  const auto copies = advice_of(TraceText()
                                    .step(1, "0", "100")
                                    .range("forward", "0", "100")
                                    .operation("aten::copy_", "0", "30")
                                    .operation("aten::mm", "30", "70"));
  REQUIRE(copies.size() == 1);
  CHECK_THAT(copies[0].text, Catch::Contains("Copies and conversions are 30 %"));

  const auto text = TraceText()
                        .step(1, "0", "100")
                        .range("forward", "0", "100")
                        .operation("aten::copy_", "0", "30")
                        .operation("aten::convolution", "30", "70")
                        .of_rank(0);
  const TraceFolder run;
  std::filesystem::create_directories(run.path() / "traces");
  run.write("traces/rank0.1.pt.trace.json", text);
  const auto said = [&] {
    std::string all;
    for (const auto& advice : analyze_traces({run.path()}, {}, {}).advice) all += advice.text;
    return all;
  };
  CHECK_THAT(said(), Catch::Contains("channels_last") && Catch::Contains("precision: amp"));
  run.write("hparams.yaml", "precision: amp\nalgorithms:\n  channels_last: {}\n");
  CHECK_THAT(said(), Catch::Contains("Copies and conversions") &&
                         !Catch::Contains("channels_last") && !Catch::Contains("precision: amp"));
  CHECK_THAT(page_of(report_of(analyze_traces({run.path()}, {}, {}))),
             Catch::Contains("<code>composer bench step --operators</code>"));

  TraceText late = TraceText().step(1, "0", "1000").step(2, "1000", "10");
  late.range("forward", "0", "1000");
  for (int i = 0; i < 10; ++i)
    late.work("gemm", std::to_string(100 * i), std::to_string(100 * i + 2), "50");
  const auto launches = advice_of(late);
  REQUIRE_FALSE(launches.empty());
  CHECK_THAT(launches[0].text, Catch::Contains("launches too late: cuda_graph"));
}

TEST_CASE("a slower rank is named", "[trace]") {
  const TraceFolder folder;
  const auto of = [](int rank, const std::string& step) {
    return TraceText().step(1, "0", step).range("forward", "0", step).of_rank(rank);
  };
  folder.write("rank0.json", of(0, "100"));
  folder.write("rank1.json", of(1, "300"));
  const auto analysis = analyze_traces({folder.path()}, {}, names);
  CHECK(analysis.slowest().rank == 1);
  REQUIRE(analysis.advice.size() == 1);
  CHECK_THAT(analysis.advice[0].text, Catch::Contains("Rank 1 needs 50 % longer"));
  CHECK(analysis.advice[0].gain == Approx(1.0 / 3));
}

TEST_CASE("ranks that mark no steps are no measure for others", "[trace]") {
  const TraceFolder folder;
  folder.write("rank0.json",
               TraceText().step(1, "0", "100").range("forward", "0", "100").of_rank(0));
  folder.write("rank1.json", TraceText().operation("a", "0", "10").of_rank(1));
  CHECK(analyze_traces({folder.path()}, {}, names).advice.empty());
}

TEST_CASE("the report in words fits its columns", "[trace]") {
  auto text = two_steps();
  text.operation("aten::an_operator_with_a_name_that_is_longer_than_a_line_of_a_terminal_can_be",
                 "30", "5", "[[128, 64, 56, 56], [64, 64, 3, 3], [], [], [], [], [1, 2, 3, 4]]");
  text.work("void cutlass::Kernel<cutlass_80_tensorop_f16_s16816gemm>(Params)", "40", "50", "5");
  const TraceFolder folder;
  const auto analysis = analyze_traces({folder.write("rank0.json", text.of_rank(0))}, {}, names);
  const auto words = text_of(report_of(analysis), 80);
  for (const auto* part :
       {"What a step is made of", "96.0 %", "data wait", "algorithm mixup", "Costliest operators",
        "[[128,64", "Threads", "What devices did", "Kernels by name", "cutlass::Kernel",
        "What would help most", "1. The step waits 20 %"})
    CHECK_THAT(words, Catch::Contains(part));
  std::istringstream lines(words);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }) <= 80);
  }
}

TEST_CASE("what follows a percentage stays with it", "[trace]") {
  const Report report{"t", {}, {"Takes 10 %: leave it out, or 5.0 %, of 3 % then"}, {}};
  CHECK_THAT(text_of(report), Catch::Contains("Takes 10 %: leave it out, or 5.0 %, of 3 % then"));
}

TEST_CASE("names cannot steer a terminal", "[trace]") {
  const TraceFolder folder;
  const auto text = TraceText()
                        .step(1, "0", "100")
                        .range(R"(\u001b[31mred)", "0", "50")
                        .operation(R"(a\nb\u009bc é\u007f)", "0", "50");
  const auto analysis = analyze_traces({folder.write("rank0.json", text.of_rank(0))}, {}, names);
  const auto words = text_of(report_of(analysis));
  CHECK_THAT(words, Catch::Contains(R"(\x1b[31mred)") && Catch::Contains(R"(a\x0ab\x9bc é\x7f)") &&
                        !Catch::Contains("\x1b"));
}

TEST_CASE("JSON of many ranges takes no longer than of few", "[trace]") {
  TraceAnalysis analysis;
  auto& rank = analysis.ranks.emplace_back();
  auto& step = rank.steps.steps.emplace_back();
  for (int i = 0; i < 60000; ++i)
    step.parts[{StepPart::other_range, "a range of a long name, number " + std::to_string(i)}] = i;
  const auto begin = std::clock();
  const auto json = json_of(analysis);
  CHECK(std::clock() - begin < 2 * CLOCKS_PER_SEC);
  CHECK(json.at("ranks").at(0).at("host").at("steps").at(0).at("parts_ns").size() == 60000);
}

TEST_CASE("the page needs nothing else, and escapes names", "[trace]") {
  auto text = two_steps();
  text.operation("a<b>&c", "30", "5");
  const TraceFolder folder;
  const auto page =
      page_of(report_of(analyze_traces({folder.write("rank0.json", text.of_rank(0))}, {}, names)));
  CHECK_THAT(page, Catch::StartsWith("<!DOCTYPE html>") && Catch::EndsWith("</html>\n"));
  CHECK_THAT(page, Catch::Contains("a&lt;b&gt;&amp;c") && Catch::Contains("<svg") &&
                       Catch::Contains("prefers-color-scheme: dark"));
  for (const auto* outside : {"http", "<script", "<link", "@import", "url("})
    CHECK_THAT(page, !Catch::Contains(outside));
}

TEST_CASE("the JSON has the numbers of the analysis", "[trace]") {
  const TraceFolder folder;
  auto text = two_steps().work("gemm", "1", "2", "10");
  const auto file = folder.write("rank0.json", text.of_rank(0));
  const auto json = json_of(analyze_traces({file}, {}, names));
  const auto& rank = json.at("ranks").at(0);
  CHECK(rank.at("rank") == 0);
  CHECK(rank.at("device").at("temporal_breakdown").at("compute_ns") == 10000);
  CHECK(rank.at("device").at("overlap").is_null());
  CHECK(rank.at("device").at("kernels").at(0).at("name") == "gemm");
  CHECK(rank.at("host").at("steps").at(1).at("parts_ns").at("algorithm mixup") == 5000);
  CHECK(rank.at("host").at("coverage").get<double>() == Approx(0.96));
  CHECK(json.at("kernel_types").at("computation") == 10000);
  CHECK(json.at("advice").at(0).at("gain").get<double>() > 0.1);
}

}  // namespace
}  // namespace composer::trace_host_test
