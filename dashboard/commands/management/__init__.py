"""The commands, where Django looks for them."""
