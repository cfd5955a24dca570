// Loads a super-resolution network, compiles it in half the usual precision and enlarges a grey ramp four times.
//
//   upscale models/esrgan/esrgan_slim_x4.onnx

#include <cstdio>
#include <vector>

#include <tempera/tempera.h>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: upscale MODEL.onnx\n");
    return 2;
  }
  try {
    const tempera::Model model = tempera::Model::load(argv[1]);
    std::printf("%lld parameters\n", static_cast<long long>(model.parameters()));

    tempera::RunOptions options;
    options.shapes[model.inputs().at(0).name] = {1, 3, 32, 32};
    tempera::Program program = model.compile(options);

    std::vector<float> pixels(3 * 32 * 32);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<float>(i % 32) / 31.0F;
    }
    const tempera::Array input = tempera::Array::of({1, 3, 32, 32}, pixels);
    const tempera::Array output = program.run(std::span(&input, 1)).at(0);
    std::printf("output %lld x %lld, first value %.3f\n", static_cast<long long>(output.shape.at(2)),
                static_cast<long long>(output.shape.at(3)), static_cast<double>(output.floats()[0]));
  } catch (const tempera::Error& error) {
    std::fputs(error.text().c_str(), stderr);
    return 1;
  }
  return 0;
}
