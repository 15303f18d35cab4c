// A language model from its folder (config.json, SafeTensors, tokenizer.json): text goes on, token by token.
#include <cstdio>
#include <exception>
#include <string>

#include "gpukit/engine/engine.h"
#include "gpukit/models/llm/load.h"
#include "gpukit/runtime/device.h"
#include "gpukit/text/tokenizer.h"

namespace engine = gpukit::engine;

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s FOLDER \"text\"\n", argv[0]);
    return 2;
  }
  try {
    const auto tokenizer = gpukit::text::Tokenizer::from_file(argv[1]);
    const auto model =
        gpukit::llm::load_model(argv[1], gpukit::runtime::default_device(), {.dtype = {}, .quantize = {}});
    engine::Request request;
    request.prompt = tokenizer.encode(argv[2]);
    request.max_new_tokens = 100;
    request.draw.temperature = 0.0f;
    request.tokenizer = tokenizer;
    const auto tokens = static_cast<int64_t>(request.prompt.size()) + request.max_new_tokens;
    engine::Engine runner(model, engine::options_for(*model, tokens));
    const int64_t number = runner.submit(request);
    std::fputs(argv[2], stdout);
    for (engine::Output token; token.finish == engine::Finish::none;) {
      token = runner.next(number);
      std::fputs(token.text.c_str(), stdout);
      std::fflush(stdout);
    }
    std::fputs("\n", stdout);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
