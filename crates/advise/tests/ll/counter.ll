; ModuleID = 'counter.c'
source_filename = "counter.c"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

%struct.pair = type { i8, [2 x double] }

@sum = internal global [8 x i64] zeroinitializer, align 16, !dbg !0
@table = dso_local global [2 x ptr] [ptr @sum, ptr getelementptr (i8, ptr @sum, i64 32)], align 16, !dbg !5
@.str = private unnamed_addr constant [10 x i8] c"counter.c\00", align 1, !dbg !12
@__func__.main = private unnamed_addr constant [5 x i8] c"main\00", align 1, !dbg !18
@pair = internal global %struct.pair zeroinitializer, align 8, !dbg !24

; Function Attrs: noinline nounwind uwtable
define dso_local i32 @main() #0 !dbg !43 {
  %1 = alloca i32, align 4
  %2 = alloca ptr, align 8
  %3 = alloca ptr, align 8
  %4 = alloca i32, align 4
  %5 = alloca i64, align 8
  %6 = alloca i64, align 8
  store i32 0, ptr %1, align 4
  call void @shmem_init(), !dbg !48
    #dbg_declare(ptr %2, !49, !DIExpression(), !50)
  %7 = call ptr @shmem_malloc(i64 noundef 800), !dbg !51
  store ptr %7, ptr %2, align 8, !dbg !50
    #dbg_declare(ptr %3, !52, !DIExpression(), !56)
  store ptr @step, ptr %3, align 8, !dbg !56
    #dbg_declare(ptr %4, !57, !DIExpression(), !59)
  store i32 0, ptr %4, align 4, !dbg !59
  br label %8, !dbg !60

8:                                                ; preds = %32, %0
  %9 = load i32, ptr %4, align 4, !dbg !61
  %10 = icmp slt i32 %9, 10, !dbg !63
  br i1 %10, label %11, label %35, !dbg !64

11:                                               ; preds = %8
  %12 = call ptr @shmemx_ft_place(ptr noundef @.str, i32 noundef 24, i32 noundef 0, ptr noundef @__func__.main, ptr noundef @shmem_checkpoint_all), !dbg !65
  %13 = call i32 %12(), !dbg !65
  %14 = icmp ne i32 %13, 0, !dbg !68
  br i1 %14, label %15, label %16, !dbg !69

15:                                               ; preds = %11
  br label %32, !dbg !70

16:                                               ; preds = %11
  %17 = load ptr, ptr %3, align 8, !dbg !71
  %18 = load ptr, ptr %2, align 8, !dbg !72
  %19 = load i32, ptr %4, align 4, !dbg !73
  %20 = call i64 %17(ptr noundef %18, i32 noundef %19), !dbg !71
  %21 = load i32, ptr %4, align 4, !dbg !74
  %22 = srem i32 %21, 8, !dbg !75
  %23 = sext i32 %22 to i64, !dbg !76
  %24 = getelementptr inbounds [8 x i64], ptr @sum, i64 0, i64 %23, !dbg !76
  store i64 %20, ptr %24, align 8, !dbg !77
  %25 = load i32, ptr %4, align 4, !dbg !78
  switch i32 %25, label %31 [
    i32 3, label %26
    i32 4, label %27
  ], !dbg !79

26:                                               ; preds = %16
  store i8 1, ptr @pair, align 8, !dbg !80
  br label %31, !dbg !82

27:                                               ; preds = %16
  store i64 1, ptr %5, align 8, !dbg !83
  %28 = load i64, ptr %5, align 8, !dbg !83
  %29 = atomicrmw add ptr @sum, i64 %28 seq_cst, align 16, !dbg !83
  store i64 %29, ptr %6, align 8, !dbg !83
  %30 = load i64, ptr %6, align 8, !dbg !83
  br label %31, !dbg !84

31:                                               ; preds = %27, %16, %26
  call void asm sideeffect "", "~{memory},~{dirflag},~{fpsr},~{flags}"() #2, !dbg !85, !srcloc !86
  br label %32, !dbg !87

32:                                               ; preds = %31, %15
  %33 = load i32, ptr %4, align 4, !dbg !88
  %34 = add nsw i32 %33, 1, !dbg !88
  store i32 %34, ptr %4, align 4, !dbg !88
  br label %8, !dbg !89, !llvm.loop !90

35:                                               ; preds = %8
  call void @shmem_finalize(), !dbg !93
  ret i32 0, !dbg !94
}

declare void @shmem_init() #1

declare ptr @shmem_malloc(i64 noundef) #1

; Function Attrs: noinline nounwind uwtable
define internal i64 @step(ptr noundef %0, i32 noundef %1) #0 !dbg !95 {
  %3 = alloca ptr, align 8
  %4 = alloca i32, align 4
  store ptr %0, ptr %3, align 8
    #dbg_declare(ptr %3, !96, !DIExpression(), !97)
  store i32 %1, ptr %4, align 4
    #dbg_declare(ptr %4, !98, !DIExpression(), !99)
  %5 = load i32, ptr %4, align 4, !dbg !100
  %6 = sext i32 %5 to i64, !dbg !100
  %7 = load ptr, ptr %3, align 8, !dbg !101
  %8 = load i64, ptr %7, align 8, !dbg !102
  %9 = add nsw i64 %8, %6, !dbg !102
  store i64 %9, ptr %7, align 8, !dbg !102
  %10 = load ptr, ptr %3, align 8, !dbg !103
  %11 = load i64, ptr %10, align 8, !dbg !104
  ret i64 %11, !dbg !105
}

declare ptr @shmemx_ft_place(ptr noundef, i32 noundef, i32 noundef, ptr noundef, ptr noundef) #1

declare i32 @shmem_checkpoint_all() #1

declare void @shmem_finalize() #1

attributes #0 = { noinline nounwind uwtable "frame-pointer"="all" "min-legal-vector-width"="0" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #1 = { "frame-pointer"="all" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #2 = { nounwind }

!llvm.dbg.cu = !{!2}
!llvm.module.flags = !{!35, !36, !37, !38, !39, !40, !41}
!llvm.ident = !{!42}

!0 = !DIGlobalVariableExpression(var: !1, expr: !DIExpression())
!1 = distinct !DIGlobalVariable(name: "sum", scope: !2, file: !3, line: 10, type: !32, isLocal: true, isDefinition: true)
!2 = distinct !DICompileUnit(language: DW_LANG_C11, file: !3, producer: "Debian clang version 19.1.7 (3~deb12u1)", isOptimized: false, runtimeVersion: 0, emissionKind: FullDebug, globals: !4, splitDebugInlining: false, nameTableKind: None)
!3 = !DIFile(filename: "counter.c", directory: ".", checksumkind: CSK_MD5, checksum: "dad583c724666f718d5a7c89cc5ec2df")
!4 = !{!5, !12, !18, !0, !24}
!5 = !DIGlobalVariableExpression(var: !6, expr: !DIExpression())
!6 = distinct !DIGlobalVariable(name: "table", scope: !2, file: !3, line: 12, type: !7, isLocal: false, isDefinition: true)
!7 = !DICompositeType(tag: DW_TAG_array_type, baseType: !8, size: 128, elements: !10)
!8 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !9, size: 64)
!9 = !DIBasicType(name: "long", size: 64, encoding: DW_ATE_signed)
!10 = !{!11}
!11 = !DISubrange(count: 2)
!12 = !DIGlobalVariableExpression(var: !13, expr: !DIExpression())
!13 = distinct !DIGlobalVariable(scope: null, file: !3, line: 24, type: !14, isLocal: true, isDefinition: true)
!14 = !DICompositeType(tag: DW_TAG_array_type, baseType: !15, size: 80, elements: !16)
!15 = !DIBasicType(name: "char", size: 8, encoding: DW_ATE_signed_char)
!16 = !{!17}
!17 = !DISubrange(count: 10)
!18 = !DIGlobalVariableExpression(var: !19, expr: !DIExpression())
!19 = distinct !DIGlobalVariable(scope: null, file: !3, line: 24, type: !20, isLocal: true, isDefinition: true)
!20 = !DICompositeType(tag: DW_TAG_array_type, baseType: !21, size: 40, elements: !22)
!21 = !DIDerivedType(tag: DW_TAG_const_type, baseType: !15)
!22 = !{!23}
!23 = !DISubrange(count: 5)
!24 = !DIGlobalVariableExpression(var: !25, expr: !DIExpression())
!25 = distinct !DIGlobalVariable(name: "pair", scope: !2, file: !3, line: 11, type: !26, isLocal: true, isDefinition: true)
!26 = distinct !DICompositeType(tag: DW_TAG_structure_type, name: "pair", file: !3, line: 5, size: 192, elements: !27)
!27 = !{!28, !29}
!28 = !DIDerivedType(tag: DW_TAG_member, name: "c", scope: !26, file: !3, line: 6, baseType: !15, size: 8)
!29 = !DIDerivedType(tag: DW_TAG_member, name: "d", scope: !26, file: !3, line: 7, baseType: !30, size: 128, offset: 64)
!30 = !DICompositeType(tag: DW_TAG_array_type, baseType: !31, size: 128, elements: !10)
!31 = !DIBasicType(name: "double", size: 64, encoding: DW_ATE_float)
!32 = !DICompositeType(tag: DW_TAG_array_type, baseType: !9, size: 512, elements: !33)
!33 = !{!34}
!34 = !DISubrange(count: 8)
!35 = !{i32 7, !"Dwarf Version", i32 5}
!36 = !{i32 2, !"Debug Info Version", i32 3}
!37 = !{i32 1, !"wchar_size", i32 4}
!38 = !{i32 8, !"PIC Level", i32 2}
!39 = !{i32 7, !"PIE Level", i32 2}
!40 = !{i32 7, !"uwtable", i32 2}
!41 = !{i32 7, !"frame-pointer", i32 2}
!42 = !{!"Debian clang version 19.1.7 (3~deb12u1)"}
!43 = distinct !DISubprogram(name: "main", scope: !3, file: !3, line: 19, type: !44, scopeLine: 19, flags: DIFlagPrototyped, spFlags: DISPFlagDefinition, unit: !2, retainedNodes: !47)
!44 = !DISubroutineType(types: !45)
!45 = !{!46}
!46 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!47 = !{}
!48 = !DILocation(line: 20, column: 5, scope: !43)
!49 = !DILocalVariable(name: "heap", scope: !43, file: !3, line: 21, type: !8)
!50 = !DILocation(line: 21, column: 11, scope: !43)
!51 = !DILocation(line: 21, column: 18, scope: !43)
!52 = !DILocalVariable(name: "call", scope: !43, file: !3, line: 22, type: !53)
!53 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !54, size: 64)
!54 = !DISubroutineType(types: !55)
!55 = !{!9, !8, !46}
!56 = !DILocation(line: 22, column: 12, scope: !43)
!57 = !DILocalVariable(name: "i", scope: !58, file: !3, line: 23, type: !46)
!58 = distinct !DILexicalBlock(scope: !43, file: !3, line: 23, column: 5)
!59 = !DILocation(line: 23, column: 14, scope: !58)
!60 = !DILocation(line: 23, column: 10, scope: !58)
!61 = !DILocation(line: 23, column: 21, scope: !62)
!62 = distinct !DILexicalBlock(scope: !58, file: !3, line: 23, column: 5)
!63 = !DILocation(line: 23, column: 23, scope: !62)
!64 = !DILocation(line: 23, column: 5, scope: !58)
!65 = !DILocation(line: 24, column: 13, scope: !66)
!66 = distinct !DILexicalBlock(scope: !67, file: !3, line: 24, column: 13)
!67 = distinct !DILexicalBlock(scope: !62, file: !3, line: 23, column: 34)
!68 = !DILocation(line: 24, column: 36, scope: !66)
!69 = !DILocation(line: 24, column: 13, scope: !67)
!70 = !DILocation(line: 25, column: 13, scope: !66)
!71 = !DILocation(line: 26, column: 22, scope: !67)
!72 = !DILocation(line: 26, column: 27, scope: !67)
!73 = !DILocation(line: 26, column: 33, scope: !67)
!74 = !DILocation(line: 26, column: 13, scope: !67)
!75 = !DILocation(line: 26, column: 15, scope: !67)
!76 = !DILocation(line: 26, column: 9, scope: !67)
!77 = !DILocation(line: 26, column: 20, scope: !67)
!78 = !DILocation(line: 27, column: 17, scope: !67)
!79 = !DILocation(line: 27, column: 9, scope: !67)
!80 = !DILocation(line: 29, column: 20, scope: !81)
!81 = distinct !DILexicalBlock(scope: !67, file: !3, line: 27, column: 20)
!82 = !DILocation(line: 30, column: 13, scope: !81)
!83 = !DILocation(line: 32, column: 13, scope: !81)
!84 = !DILocation(line: 33, column: 9, scope: !81)
!85 = !DILocation(line: 34, column: 9, scope: !67)
!86 = !{i64 752}
!87 = !DILocation(line: 35, column: 5, scope: !67)
!88 = !DILocation(line: 23, column: 30, scope: !62)
!89 = !DILocation(line: 23, column: 5, scope: !62)
!90 = distinct !{!90, !64, !91, !92}
!91 = !DILocation(line: 35, column: 5, scope: !58)
!92 = !{!"llvm.loop.mustprogress"}
!93 = !DILocation(line: 36, column: 5, scope: !43)
!94 = !DILocation(line: 37, column: 5, scope: !43)
!95 = distinct !DISubprogram(name: "step", scope: !3, file: !3, line: 14, type: !54, scopeLine: 14, flags: DIFlagPrototyped, spFlags: DISPFlagLocalToUnit | DISPFlagDefinition, unit: !2, retainedNodes: !47)
!96 = !DILocalVariable(name: "at", arg: 1, scope: !95, file: !3, line: 14, type: !8)
!97 = !DILocation(line: 14, column: 24, scope: !95)
!98 = !DILocalVariable(name: "i", arg: 2, scope: !95, file: !3, line: 14, type: !46)
!99 = !DILocation(line: 14, column: 32, scope: !95)
!100 = !DILocation(line: 15, column: 12, scope: !95)
!101 = !DILocation(line: 15, column: 6, scope: !95)
!102 = !DILocation(line: 15, column: 9, scope: !95)
!103 = !DILocation(line: 16, column: 13, scope: !95)
!104 = !DILocation(line: 16, column: 12, scope: !95)
!105 = !DILocation(line: 16, column: 5, scope: !95)
