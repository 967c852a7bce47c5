// tests/networks/architectures.h
//
// The architectures, layer by layer.

#ifndef SLUICE_TESTS_NETWORKS_ARCHITECTURES_H_
#define SLUICE_TESTS_NETWORKS_ARCHITECTURES_H_

#include <array>

#include "tests/networks/layers.h"

namespace sluice {

// K. He et al., 2016; bottleneck blocks in four stages, stride in the 3 x 3.
void BuildResNet(LayerBuilder& b, const std::array<int, 4>& blocks);
// K. Simonyan, A. Zisserman, 2015, configuration D.
void BuildVgg16(LayerBuilder& b);
// G. Huang et al., 2017; growth 32.
void BuildDenseNet201(LayerBuilder& b);
// M. Sandler et al., 2018; width 1.
void BuildMobileNetV2(LayerBuilder& b);
// C. Szegedy et al., 2016.
void BuildInceptionV3(LayerBuilder& b);
// O. Ronneberger et al., 2015; four levels, 256 x 256, padded.
void BuildUnet(LayerBuilder& b);
// A. Bochkovskiy et al., 2020: CSPDarknet-53, SPP and PAN with YOLOv4's widths, three raw heads.
void BuildYoloLike(LayerBuilder& b);
// J. Devlin et al., 2019: twelve layers of 768, sequences of 128.
void BuildBertBase(LayerBuilder& b);

}  // namespace sluice

#endif  // SLUICE_TESTS_NETWORKS_ARCHITECTURES_H_
