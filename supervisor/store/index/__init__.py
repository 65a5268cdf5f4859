"""What a store knows about its sessions without reading their journals."""
