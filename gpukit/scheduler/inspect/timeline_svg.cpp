// A simulation as a picture.
#include <algorithm>

#include "gpukit/scheduler/tasks/simulate.h"

namespace gpukit::scheduler {

namespace {

constexpr int kLeft = 150, kPlot = 720, kRight = 30, kRow = 18, kMemory = 64, kGap = 22;
constexpr int kLegend = 150, kLegendsInRow = kPlot / kLegend + 1;
constexpr const char* kColours[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

/// Hundredths of a pixel as a number.
std::string pixels(int64_t hundredths) {
  const std::string rest = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + (rest == "0" ? "" : (rest.size() == 1 ? ".0" : ".") + rest);
}

class Picture {
 public:
  explicit Picture(int64_t end_ns) : end_(std::max<int64_t>(end_ns, 1)) {}

  /// Hundredths of a pixel from the left.
  int64_t x(int64_t ns) const {
    return 100 * kLeft + static_cast<int64_t>(100.0 * kPlot * (static_cast<double>(ns) / static_cast<double>(end_)));
  }
  void rect(int64_t from_ns, int64_t to_ns, int y, int height, const char* colour, const char* opacity,
            const std::string& title) {
    const int64_t left = x(from_ns), width = std::max<int64_t>(x(to_ns) - left, 100);
    out_ += "<rect x=\"" + pixels(left) + "\" y=\"" + std::to_string(y) + "\" width=\"" + pixels(width) +
            "\" height=\"" + std::to_string(height) + "\" fill=\"" + colour + "\" fill-opacity=\"" + opacity + "\">" +
            "<title>" + escaped(title) + "</title></rect>\n";
  }
  void text(int64_t x_hundredths, int y, const char* anchor, const std::string& value, const char* extra = "") {
    out_ += "<text x=\"" + pixels(x_hundredths) + "\" y=\"" + std::to_string(y) + "\" text-anchor=\"" + anchor + "\"" +
            extra + ">" + escaped(value) + "</text>\n";
  }
  void line(int64_t x1, int y1, int64_t x2, int y2, const char* colour) {
    out_ += "<line x1=\"" + pixels(x1) + "\" y1=\"" + std::to_string(y1) + "\" x2=\"" + pixels(x2) + "\" y2=\"" +
            std::to_string(y2) + "\" stroke=\"" + colour + "\"/>\n";
  }
  void raw(const std::string& text) { out_ += text; }
  std::string finish(int height) {
    const std::string size = std::to_string(kLeft + kPlot + kRight) + "\" height=\"" + std::to_string(height);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + size +
           "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
           "fill=\"#ffffff\"/>\n" +
           out_ + "</svg>\n";
  }

 private:
  const int64_t end_;
  std::string out_;
};

/// 1, 2 or 5 times a power of ten, so that there are ten marks at most.
int64_t step_of(int64_t end_ns) {
  int64_t step = 1000;
  for (int i = 0; end_ns / step > 10; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

void draw_axis(Picture& picture, int64_t end_ns, int top, int bottom) {
  const int64_t step = step_of(end_ns);
  for (int64_t at = 0; at <= end_ns; at += step) {
    picture.line(picture.x(at), top - 4, picture.x(at), bottom, "#dddddd");
    picture.text(picture.x(at), top - 8, "middle", detail::milliseconds(at));
  }
  picture.text(100 * (kLeft - 24), top - 8, "end", "ms");
}

void draw_task(Picture& picture, const Simulation& s, size_t i, int y) {
  const WorkloadTask& task = s.workload.tasks[i];
  const SimulatedTask& done = s.tasks[i];
  const char* colour = kColours[task.context % std::size(kColours)];
  const std::string title = task.id + ", " + s.workload.contexts[task.context].name + ", " +
                            detail::bytes_text(task.memory) + ": " + name(done.outcome) +
                            (done.reason.empty() ? "" : ", " + done.reason);
  picture.text(100 * (kLeft - 8), y + 12, "end", task.id);
  if (done.outcome == TaskOutcome::rejected) {
    picture.text(picture.x(task.arrival_ns), y + 12, "middle", "x", " fill=\"#bb0000\"");
    return;
  }
  const int64_t begin = done.started_ns >= 0 ? done.started_ns : done.finished_ns;
  if (begin > task.arrival_ns) picture.rect(task.arrival_ns, begin, y + 7, 3, colour, "0.4", title);
  if (done.started_ns >= 0) picture.rect(done.started_ns, done.finished_ns, y + 2, kRow - 5, colour, "1", title);
  if (done.outcome == TaskOutcome::failed)
    picture.text(picture.x(done.finished_ns) + 200, y + 12, "start", "!", " fill=\"#bb0000\"");
}

void draw_memory(Picture& picture, const Simulation& s, size_t d, int y) {
  const auto whole = static_cast<double>(std::max<int64_t>(s.workload.devices[d].memory, 1));
  const int bottom = y + kMemory;
  std::string path = "M" + pixels(picture.x(0)) + " " + std::to_string(bottom);
  for (const auto& [at, bytes] : s.devices[d].memory) {
    const auto height = static_cast<int64_t>(100.0 * kMemory * (static_cast<double>(bytes) / whole));
    path += "H" + pixels(picture.x(at)) + "V" + pixels(100 * bottom - height);
  }
  path += "H" + pixels(picture.x(s.end_ns)) + "V" + std::to_string(bottom) + "Z";
  picture.raw("<path d=\"" + path + "\" fill=\"#888888\" fill-opacity=\"0.5\"/>\n");
  picture.line(100 * kLeft, bottom, 100 * (kLeft + kPlot), bottom, "#444444");
  picture.line(100 * kLeft, y, 100 * (kLeft + kPlot), y, "#bb0000");
  picture.text(100 * (kLeft - 8), y + 10, "end", s.workload.devices[d].name);
  picture.text(100 * (kLeft - 8), y + 24, "end", detail::bytes_text(s.workload.devices[d].memory));
}

}  // namespace

std::string timeline_svg(const Simulation& s) {
  Picture picture(s.end_ns);
  picture.text(100 * kLeft, 16, "start", s.workload.name, " font-weight=\"bold\"");
  for (size_t c = 0; c < s.workload.contexts.size(); ++c) {
    const int64_t at = 100 * (kLeft + static_cast<int64_t>(c % kLegendsInRow) * kLegend);
    const int y = 24 + 14 * static_cast<int>(c / kLegendsInRow);
    picture.raw("<rect x=\"" + pixels(at) + "\" y=\"" + std::to_string(y) + "\" width=\"10\" height=\"10\" fill=\"" +
                kColours[c % std::size(kColours)] + "\"/>\n");
    picture.text(at + 1400, y + 9, "start",
                 s.workload.contexts[c].name + " (" + name(s.contexts[c].decision.qos_class) + ")");
  }
  const int top = 58 + 14 * static_cast<int>((s.workload.contexts.size() - 1) / kLegendsInRow);
  const int rows = top + kRow * static_cast<int>(s.tasks.size());
  const int height = rows + static_cast<int>(s.devices.size()) * (kMemory + kGap) + 10;
  draw_axis(picture, s.end_ns, top, height - 10);
  for (size_t i = 0; i < s.tasks.size(); ++i) draw_task(picture, s, i, top + kRow * static_cast<int>(i));
  for (size_t d = 0; d < s.devices.size(); ++d)
    draw_memory(picture, s, d, rows + kGap / 2 + static_cast<int>(d) * (kMemory + kGap));
  return picture.finish(height);
}

}  // namespace gpukit::scheduler
