"""What a store knows of its sessions without reading their journals."""
