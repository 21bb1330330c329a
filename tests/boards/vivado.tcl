# A model of the commands of Vivado that the generated Tcl uses: unknown commands, switches, IPs,
# pins, settings and segments are errors, and so is a pin or an interface that is left open.
# The harness sets ::script_path, ::board_parts, ::slack and ::known_interfaces before.

proc fail {text} { return -code error -level 2 $text }

# Splits arguments: switches with a value, switches without one, and as many others as allowed.
proc take {arguments valued flags least most} {
    set found [dict create]
    set rest {}
    for {set i 0} {$i < [llength $arguments]} {incr i} {
        set word [lindex $arguments $i]
        if {![string match -* $word]} {
            lappend rest $word
        } elseif {$word in $valued} {
            if {[incr i] >= [llength $arguments]} { fail "$word needs a value" }
            dict set found $word [lindex $arguments $i]
        } elseif {$word in $flags} {
            dict set found $word 1
        } else {
            fail "unknown switch $word"
        }
    }
    if {[llength $rest] < $least || [llength $rest] > $most} {
        fail "[llength $rest] arguments, expected $least to $most: $rest"
    }
    dict set found rest $rest
    return $found
}

# Projects and files.
set ::projects {}
set ::sources {}
set ::property [dict create]
proc create_project {args} {
    set a [take $args {-part} {-force} 2 2]
    if {![dict exists $a -part] || ![string match xc* [dict get $a -part]]} { fail "no part" }
    lappend ::projects [lindex [dict get $a rest] 0]
    set ::sources {}
    set ::property [dict create board_part ""]
}
proc close_project {} { lappend ::projects closed }
proc current_project {} { return project }
proc current_fileset {} { return sources_1 }
proc add_files {args} {
    foreach file [lindex [dict get [take $args {} {-norecurse} 1 1] rest] 0] {
        if {![file exists $file] && ![string match *_wrapper.v $file]} { fail "no file $file" }
        lappend ::sources $file
    }
}
proc update_compile_order {args} { take $args {-fileset} {} 0 0 }
proc get_files {name} { if {$name ne "$::design.bd"} { fail "no file $name" }; return $name }
proc get_board_parts {args} {
    set a [take $args {} {-quiet -latest_file_version} 1 1]
    return [lsearch -all -inline -glob $::board_parts [dict get $a rest]]
}
proc update_ip_catalog {} {
    set found [file join [lindex [dict get $::property ip_repo_paths] 0] headrace]
    if {$found ne $::packaged} { fail "the repository has no IP: $found" }
}
proc make_wrapper {args} {
    set a [take $args {-files} {-top} 0 0]
    return [string map {.bd _wrapper.v} [dict get $a -files]]
}

# Packaging.
set ::packaged ""
set ::saved 0
namespace eval ipx {
    proc package_project {args} {
        set a [take $args {-root_dir -vendor -library -taxonomy} {-import_files -force} 0 0]
        if {![dict exists $::property top]} { fail "no top" }
        set ::packaged [dict get $a -root_dir]
        set ::vlnv "[dict get $a -vendor]:[dict get $a -library]"
    }
    proc current_core {} { return core }
    proc get_bus_interfaces {args} {
        set a [take $args {-of_objects} {} 1 1]
        set name [dict get $a rest]
        return [expr {$name in $::known_interfaces ? $name : ""}]
    }
    proc associate_bus_interfaces {args} {
        set a [take $args {-busif -clock} {} 1 1]
        foreach switch {-busif -clock} {
            if {[dict get $a $switch] ni $::known_interfaces} { fail "no [dict get $a $switch]" }
        }
    }
    foreach name {create_xgui_files update_checksums check_integrity} {
        proc $name {core} { if {$core ne "core"} { fail "no core" } }
    }
    proc save_core {core} { set ::saved 1 }
}

# Block design. Of each IP: pins, interfaces with their mode, settings, address segments.
set ps_ultra {
    pins {pl_clk0 pl_resetn0 pl_ps_irq0 maxihpm0_fpd_aclk saxihp0_fpd_aclk}
    interfaces {M_AXI_HPM0_FPD master S_AXI_HP0_FPD slave}
    settings {PSU__USE__M_AXI_GP0 PSU__MAXIGP0__DATA_WIDTH PSU__USE__M_AXI_GP1
        PSU__USE__M_AXI_GP2 PSU__USE__S_AXI_GP2 PSU__SAXIGP2__DATA_WIDTH PSU__USE__IRQ0
        PSU__FPGA_PL0_ENABLE PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ}
    spaces {Data}
    segments {SAXIGP2/HP0_DDR_LOW {0 0x80000000} SAXIGP2/HP0_DDR_HIGH {0x800000000 0x800000000}
        SAXIGP2/HP0_LPS_OCM {0xff000000 0x1000000} SAXIGP2/HP0_QSPI {0xc0000000 0x20000000}}
    control {0xa0000000 0x10000000}
}
set ps_7 {
    pins {FCLK_CLK0 FCLK_RESET0_N IRQ_F2P M_AXI_GP0_ACLK S_AXI_HP0_ACLK}
    interfaces {M_AXI_GP0 master S_AXI_HP0 slave}
    settings {PCW_USE_M_AXI_GP0 PCW_USE_S_AXI_HP0 PCW_S_AXI_HP0_DATA_WIDTH
        PCW_USE_FABRIC_INTERRUPT PCW_IRQ_F2P_INTR PCW_EN_CLK0_PORT PCW_EN_RST0_PORT
        PCW_FPGA0_PERIPHERAL_FREQMHZ}
    spaces {Data}
    segments {S_AXI_HP0/HP0_DDR_LOWOCM {0 0x40000000}}
    control {0x40000000 0x40000000}
}
set ::ips [dict create \
    xilinx.com:ip:zynq_ultra_ps_e $ps_ultra xilinx.com:ip:processing_system7 $ps_7 \
    xilinx.com:ip:clk_wiz {pins {clk_in1 resetn clk_out1 locked} interfaces {}
        settings {PRIM_SOURCE CLKOUT1_REQUESTED_OUT_FREQ RESET_TYPE USE_LOCKED}
        spaces {} segments {}} \
    xilinx.com:ip:proc_sys_reset {pins {slowest_sync_clk ext_reset_in dcm_locked
        peripheral_aresetn} interfaces {} settings {} spaces {} segments {}} \
    xilinx.com:ip:smartconnect {pins {aclk aresetn} interfaces {S00_AXI slave M00_AXI master}
        settings {NUM_SI NUM_MI} spaces {} segments {}} \
    headrace:accelerator:headrace {pins {aclk aresetn irq} interfaces {m_axi master s_axi slave}
        settings {} spaces {m_axi} segments {s_axi/reg0 {0 4096}}}]
set ::drivers {pl_clk0 pl_resetn0 FCLK_CLK0 FCLK_RESET0_N clk_out1 locked peripheral_aresetn irq}
set ::cells [dict create]
set ::open [dict create]
set ::addresses {}
set ::settings [dict create]

proc create_bd_design {name} { set ::design $name }
proc create_bd_cell {args} {
    set a [take $args {-type -vlnv} {} 1 1]
    set vlnv [dict get $a -vlnv]
    if {[dict get $a -type] ne "ip" || ![dict exists $::ips $vlnv]} { fail "no IP $vlnv" }
    set name [dict get $a rest]
    if {[dict exists $::cells $name]} { fail "two cells $name" }
    dict set ::cells $name $vlnv
    foreach pin [dict get $::ips $vlnv pins] { dict set ::open $name/$pin pin }
    foreach {interface mode} [dict get $::ips $vlnv interfaces] {
        dict set ::open $name/$interface $mode
    }
    return $name
}
proc apply_bd_automation {args} {
    set a [take $args {-rule -config} {} 1 1]
    set vlnv [dict get $::cells [dict get $a rest]]
    if {[dict get $a -rule] ne [string map {:ip: :bd_rule:} $vlnv]} { fail "no such rule" }
    if {[llength [dict get $a -config]] % 2} { fail "odd settings: [dict get $a -config]" }
    if {![dict exists [dict get $a -config] apply_board_preset]} { fail "no preset" }
}
proc set_property {args} {
    if {[lindex $args 0] eq "-dict"} {
        lassign $args _ values object
        if {[llength $args] != 3 || [llength $values] % 2} { fail "set_property -dict: $args" }
    } else {
        if {[llength $args] != 3} { fail "set_property: $args" }
        lassign $args name value object
        set values [list $name $value]
    }
    foreach {name value} $values {
        if {[dict exists $::cells $object]} {
            set known [dict get $::ips [dict get $::cells $object] settings]
            if {![string match CONFIG.* $name] || [string range $name 7 end] ni $known} {
                fail "$object has no property $name"
            }
            dict set ::settings $object/[string range $name 7 end] $value
        } elseif {$object in {project sources_1 core}} {
            dict set ::property $name $value
        } else {
            fail "no object $object"
        }
    }
}
proc get_bd_pins {path} {
    lassign [split $path /] cell pin
    if {![dict exists $::cells $cell]} { fail "no cell $cell" }
    if {$pin ni [dict get $::ips [dict get $::cells $cell] pins]} { fail "no pin $path" }
    return $path
}
proc get_bd_intf_pins {path} {
    lassign [split $path /] cell interface
    if {![dict exists $::cells $cell]} { fail "no cell $cell" }
    if {![dict exists [dict get $::ips [dict get $::cells $cell] interfaces] $interface]} {
        fail "no interface $path"
    }
    return $path
}
proc connect_bd_net {args} {
    set driven 0
    foreach pin $args {
        if {![dict exists $::open $pin]} { fail "$pin is connected twice" }
        dict unset ::open $pin
        incr driven [expr {[lindex [split $pin /] 1] in $::drivers}]
    }
    if {[llength $args] < 2 || $driven != 1} { fail "$driven drivers: $args" }
}
proc connect_bd_intf_net {args} {
    if {[llength $args] != 2} { fail "connect_bd_intf_net: $args" }
    set modes {}
    foreach pin $args {
        if {![dict exists $::open $pin]} { fail "$pin is connected twice" }
        lappend modes [dict get $::open $pin]
        dict unset ::open $pin
    }
    if {$modes ne "master slave"} { fail "$args: $modes" }
}
proc get_bd_addr_spaces {path} {
    lassign [split $path /] cell space
    if {$space ni [dict get $::ips [dict get $::cells $cell] spaces]} { fail "no space $path" }
    return $path
}
proc get_bd_addr_segs {args} {
    set a [take $args {} {-quiet} 1 1]
    set path [dict get $a rest]
    set cell [lindex [split $path /] 0]
    set name [string range $path [string length $cell/] end]
    if {![dict exists [dict get $::ips [dict get $::cells $cell] segments] $name]} {
        if {[dict exists $a -quiet]} { return "" }
        fail "no segment $path"
    }
    return $path
}
proc assign_bd_address {args} {
    set a [take $args {-offset -range -target_address_space} {-force} 1 1]
    set offset [expr {[dict get $a -offset]}]
    set range [expr {[dict get $a -range]}]
    if {$range & ($range - 1) || $offset % $range} { fail "range $range at $offset" }
    set segment [dict get $a rest]
    set cell [lindex [split $segment /] 0]
    set facts [dict get $::ips [dict get $::cells $cell]]
    lassign [dict get $facts segments [string range $segment [string length $cell/] end]] low size
    if {$cell eq "ps"} {
        if {$offset != $low || $range > $size} { fail "$segment has no $range bytes at $offset" }
    } else {
        lassign [dict get $::ips [dict get $::cells ps] control] first bytes
        if {$range != $size || $offset < $first || $offset + $range > $first + $bytes} {
            fail "the processor reaches no $range bytes at $offset"
        }
    }
    lappend ::addresses [list $segment $offset $range]
}
proc exclude_bd_addr_seg {args} {
    set a [take $args {-target_address_space} {} 1 1]
    lappend ::addresses [list [dict get $a rest] excluded]
}
proc validate_bd_design {} {
    if {[dict size $::open]} { fail "left open: [dict keys $::open]" }
    foreach {name facts} [dict get $::ips [dict get $::cells ps] segments] {
        if {[lsearch -index 0 $::addresses ps/$name] < 0} { fail "$name is neither in nor out" }
    }
    set ::validated 1
}
proc save_bd_design {} {}

# Runs.
proc launch_runs {args} { take $args {-to_step -jobs} {} 1 1 }
proc wait_on_runs {run} { if {!$::validated} { fail "not validated" } }
proc get_runs {run} { return run_$run }
proc open_run {run} {}
proc get_property {name object} {
    if {$object eq "run_impl_1"} {
        return [dict get [dict create PROGRESS 100% STATUS done STATS.WNS $::slack \
            DIRECTORY [file dirname $::script_path]/work/run] $name]
    }
    return [dict get $::property $name]
}
proc report_utilization {args} { take $args {-hierarchical_depth -file} {-hierarchical} 0 0 }
proc report_timing_summary {args} { take $args {-file} {} 0 0 }
proc write_hw_platform {args} { take $args {} {-fixed -include_bit -force} 1 1 }
